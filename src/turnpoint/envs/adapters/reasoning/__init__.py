"""reasoning-gym's generated problems: one turn, judged by the library's own scorers."""
