"""Minesweeper: a small engine, exact mine probabilities, its oracles and its board generator."""
