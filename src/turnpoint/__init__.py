"""turnpoint trains multi-turn language-model agents from the turns where episodes go wrong."""

__version__ = "0.1.0"
