"""Sokoban: a small engine, its exact oracle and its level generator."""
