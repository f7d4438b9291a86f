"""ALFWorld's text games, played by the real TextWorld engine in a process of its own."""
