"""Gymnasium's environments: with Text spaces as they are, with discrete actions by names, drawn as text."""
