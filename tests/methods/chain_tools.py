"""Chains without a model: an agent that reflects, and attempts with given rewards."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from turnpoint.prompts import reflection_reply
from turnpoint.records import (
    Attempt,
    Episode,
    Fork,
    Group,
    Observation,
    Reflection,
    StopReason,
    Task,
    Turn,
    chains_of,
)
from turnpoint.testing.harness import random_agent
from turnpoint.testing.scripted_policy import Script

TASK = Task("t-1", "toy")


def reflecting_agent(answer=None, **agent) -> Script:
    """A random agent that answers reflection prompts with ``answer(turns, rng)``, by default a random turn."""
    act = random_agent(**agent)

    def script(prompt: str, seed: int) -> str:
        last = prompt.rsplit("[user]", 1)[-1]
        if "your remark</remark>" not in last:
            return act(prompt, seed)
        rng = random.Random(seed)
        counted = re.search(r"numbered 0 to (\d+)", last)
        turns = int(counted.group(1)) + 1 if counted else 0
        if answer is not None:
            return answer(turns, rng)
        return reflection_reply(rng.randrange(turns) if turns else None, f"Remark {rng.randrange(1000)}.")

    return script


def attempt(
    rewards: Sequence[float],
    anchors: Sequence[str],
    *,
    success: bool | None = None,
    index: int = 0,
    chain: str = "A",
    start: int | None = None,
    before: Episode | None = None,
    reflects: tuple[int | None, str] | None = None,
    invalid: Sequence[int] = (),
) -> Episode:
    """An attempt with one-token turns; turns before ``start`` are reused from ``before``."""
    episode = Episode(
        id=f"{chain}{index}",
        task=TASK,
        success=bool(success),
        stop=StopReason.SUCCESS if success else StopReason.MAX_TURNS,
        attempt=Attempt(index, (), chain),
    )
    if start is not None and before is not None:
        episode.forked_from = Fork(before.id, start)
    for number, (reward, anchor) in enumerate(zip(rewards, anchors, strict=True)):
        episode.turns.append(
            Turn(
                number,
                Observation(f"seen {anchor}", None, anchor),
                prompt_ids=(1, 2),
                response_ids=(7, 8),
                logprobs=(-0.5, -0.25),
                action=None if number in invalid else "go",
                executed="go",
                reward=reward,
                reused=number < (start or 0),
            )
        )
    if reflects is not None:
        pivot, remark = reflects
        episode.reflection = Reflection(
            prompt_ids=(3,),
            response_ids=(9, 9, 9),
            logprobs=(-1.0, -1.0, -1.0),
            pivot=pivot,
            remark=remark,
            valid=pivot is not None and bool(remark),
        )
    return episode


def worked_chains(*, k0: int = 1, k1: int = 2) -> list[Episode]:
    """Chain A of three attempts (gamma .9/.5, won in the third), chain B won at once."""
    a0 = attempt([0, 0, 0], ["s0", "s1", "x2"], reflects=(k0, "r"))
    a1 = attempt([0, 0, 0], ["s0", "s1", "u2"], index=1, start=k0, before=a0, reflects=(k1, "r"))
    a2 = attempt([0, 0, 0, 1], ["s0", "s1", "u2", "v3"], success=True, index=2, start=k1, before=a1)
    b0 = attempt([0, 1], ["s0", "w1"], success=True, chain="B")
    return [a0, a1, a2, b0]


def group_of(episodes: Sequence[Episode]) -> Group:
    return Group(TASK, list(episodes))


def conserved(played) -> bool:
    """Whether every sampled token is in a row or was dropped by name."""
    in_rows = sum(len(row.response_ids) for row in played.rows)
    dropped = sum(value for name, value in played.tally.items() if name.startswith("dropped_tokens/"))
    return in_rows + dropped == played.sampled


def chains(played) -> list[list[Episode]]:
    """All chains of a step."""
    return [chain for group in played.groups for chain in chains_of(group.episodes)]
