"""What can go wrong between us and verl's processes."""

from __future__ import annotations


class EngineError(RuntimeError):
    """verl's processes cannot go on; the message counts what was in flight. Finished checkpoints are kept."""
