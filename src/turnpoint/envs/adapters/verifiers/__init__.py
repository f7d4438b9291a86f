"""Environments of verifiers (its v1 API: tasksets, and environments that run one agent), without model or server."""
