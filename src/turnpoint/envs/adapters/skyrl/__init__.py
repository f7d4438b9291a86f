"""skyrl-gym's text environments: one dataset row is one task."""
