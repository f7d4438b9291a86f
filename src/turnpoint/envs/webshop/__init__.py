"""WebShop (Yao et al. 2022) as a text engine: shopping for a described product in a catalogue."""
