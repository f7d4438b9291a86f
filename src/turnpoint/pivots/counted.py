"""Which episodes count where failures are measured: independent attempts whose outcome is known."""

from __future__ import annotations

from turnpoint.records import Episode, EpisodeKind


def why_not_counted(episode: Episode) -> str | None:
    """Why an episode is left out, in a few words to count by; None if it counts.

    Retries are left out: they know of the attempts before them, and the turns that they took over from one hold its
    mistakes.
    """
    if episode.kind != EpisodeKind.ROLLOUT:
        return f"kind: {episode.kind.value}"
    if episode.attempt.index > 0:
        return "attempt after the first"
    if episode.stop is None or not episode.stop.has_outcome:
        return f"no outcome: {episode.stop.value if episode.stop else 'unfinished'}"
    if episode.success is None:
        return "no outcome: not said"
    return None
