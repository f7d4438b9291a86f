"""PivoARL (arXiv 2607.03702): retry from the turn that went wrong, and credit attempts up to it.

A chain is up to N attempts at one task. After a failed attempt the policy reflects: it names the earliest wrong
turn ``k`` and leaves a remark. The next attempt restores the state before turn ``k`` and plays on from there.
Turns before ``k`` earn what later attempts win, turns from ``k`` on do not (*pivot isolation*), and the
reflection is trained by what the attempt after it achieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from turnpoint.config import ConfigError
from turnpoint.credit import reflection_returns
from turnpoint.envs import Capabilities
from turnpoint.methods.chain import ChainSettings, Restart, play_chain, play_chains
from turnpoint.methods.chain_credit import (
    Chains,
    act_rows,
    chain_advantages,
    count_chains,
    credit_chain,
    reflection_rows,
    restart_turns,
    rewards,
    solved,
    usable_chains,
    valid,
)
from turnpoint.methods.parts import Stateless
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer

Ablation = Literal[
    "none",
    "without_isolation",
    "without_pivot",
    "random_pivot",
    "without_reflection_training",
    "without_reflection",
]


class PivoARLSettings(ChainSettings):
    """Pivot-based retries with pivot-isolated credit."""

    title: ClassVar[str] = "PivoARL"
    paper: ClassVar[str] = "arXiv 2607.03702"
    terms: ClassVar[tuple[str, ...]] = (
        "group-relative outcome",
        "anchor-state returns (pivot-isolated)",
        "reflection return",
    )

    kind: Literal["pivoarl"] = "pivoarl"
    restart: Restart = "pivot"
    """The next attempt starts at the turn the reflection names, at a random turn, or at the beginning."""
    isolation: bool = True
    """Turns from the pivot on earn nothing from later attempts; otherwise all turns do."""
    successor_return: Literal["start", "pivot"] = "start"
    """Which return of the next attempt is carried over: that of its first turn, or of its turn k."""
    ablation: Ablation = "none"
    """One of the paper's ablations; overrides the settings it concerns."""

    @model_validator(mode="after")
    def _pivot_named(self) -> Self:
        s = self.effective()
        if s.attempts > 1 and s.restart == "pivot" and s.reflection == "none":
            raise ValueError(
                "restart is pivot, but with reflection none nothing names a turn; set restart to random or full, "
                "or reflection to untrained"
            )
        return self

    def effective(self) -> PivoARLSettings:
        """These settings with the ablation's own values put in."""
        changes: dict[str, dict[str, bool | str]] = {
            "without_isolation": {"isolation": False},
            "without_pivot": {"restart": "full"},
            "random_pivot": {"restart": "random"},
            "without_reflection_training": {"reflection": "untrained"},
            "without_reflection": {"reflection": "none", "restart": "random"},
        }
        return self.model_copy(update=changes.get(self.ablation, {}))

    def check(self, capabilities: Capabilities, teachers: Teachers) -> None:
        s = self.effective()
        if (
            s.attempts > 1
            and s.restart != "full"
            and not (capabilities.snapshots or capabilities.deterministic)
        ):
            raise ConfigError(
                f"method.restart is {s.restart}, but this environment has no snapshots and is not deterministic, "
                "so no state in the middle of an attempt can be brought back; set method.restart to full, or "
                "method.kind to metarl"
            )

    def build(self) -> PivoARL:
        return PivoARL(self)


class PivoARL(Stateless):
    """See the module text; ``collect`` and ``credit`` follow the paper's Algorithm 1."""

    def __init__(self, settings: PivoARLSettings) -> None:
        self.settings = settings.effective()
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` chains of every task; a group holds the attempts of all its chains."""
        s = self.settings
        return await play_chains(tasks, rollouts, s.rules(s.restart), group=s.group, attempts=s.attempts)

    async def attempts(self, task: Task, index: int, rollouts: Rollouts, count: int) -> list[Episode]:
        """One chain of at most ``count`` attempts, for evaluation."""
        return await play_chain(task, index, rollouts, self.settings.rules(self.settings.restart), count)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """Rows of all newly generated turns, and of the reflections that were followed by an attempt."""
        s = self.settings
        chains = usable_chains(groups, self.tally)
        pivots = [restart_turns(chain) for _, chain in chains]
        if s.restart == "full":
            pivots = [[0] * len(turns) for turns in pivots]
        rows = self._act_rows(chains, pivots)
        returns = [
            reflection_returns(rewards(chain), k, solved(chain), s.gamma_step, valid(chain))
            for (_, chain), k in zip(chains, pivots, strict=True)
        ]
        rows += reflection_rows(chains, returns, s, self.tally)
        count_chains(chains, self.tally, s.attempts)
        return rows

    def _act_rows(self, chains: Chains, pivots: Sequence[Sequence[int | None]]) -> list[Row]:
        s = self.settings
        credited = [
            credit_chain(number, chain, k, s) for (number, chain), k in zip(chains, pivots, strict=True)
        ]
        advantages = chain_advantages(credited, s, isolation=s.isolation, successor=s.successor_return)
        return act_rows(chains, advantages, self.tally)
