"""The household environment: an engine for ALFWorld text games, its oracles and its game generator."""
