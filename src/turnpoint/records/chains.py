"""Chains: several attempts at one task, each knowing its place (``Episode.attempt``)."""

from __future__ import annotations

from collections.abc import Iterable

from turnpoint.records.episode import Episode


def chains_of(episodes: Iterable[Episode]) -> list[list[Episode]]:
    """Attempts sorted into chains, both in order; an episode outside any chain is one of its own."""
    chains: dict[str, list[Episode]] = {}
    for episode in episodes:
        chains.setdefault(episode.attempt.chain or f"\x00{episode.id}", []).append(episode)
    return [sorted(chain, key=lambda e: e.attempt.index) for chain in chains.values()]
