"""Competition problems answered in one turn, checked symbolically."""
