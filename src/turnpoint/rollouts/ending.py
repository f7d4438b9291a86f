"""How episodes end: the reason, the outcome, and which reason a fault is."""

from __future__ import annotations

from turnpoint.envs import EnvError
from turnpoint.envs.replay import ReplayMismatch
from turnpoint.policy import ContextOverflow
from turnpoint.records import Episode, StopReason

FAULTS = (TimeoutError, EnvError, ContextOverflow)
"""What ends one episode and never the run."""


def end_episode(
    episode: Episode, reason: StopReason, *, success: bool | None = None, error: str = ""
) -> None:
    """Close the record of an episode; reasons with an outcome count as failures unless told otherwise."""
    episode.stop, episode.error = reason, error
    episode.success = success if success is not None or not reason.has_outcome else False


def end_with_fault(episode: Episode, fault: Exception) -> None:
    """Close the record of an episode that met one of ``FAULTS``."""
    if isinstance(fault, TimeoutError):
        reason = StopReason.TIME_OUT
    elif isinstance(fault, ReplayMismatch):
        reason = StopReason.RESTORE_MISMATCH
    elif isinstance(fault, ContextOverflow):
        reason = StopReason.CONTEXT_LIMIT
    else:
        reason = StopReason.ENV_ERROR
    end_episode(episode, reason, error=str(fault) or "the wall clock of the episode ran out")
