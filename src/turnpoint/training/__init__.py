"""Training: run configs, the loop, evaluation, checkpoints, metrics, supervised warm starts."""
