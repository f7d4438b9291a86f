"""MetaRL, as in LaMer (arXiv 2512.16848): attempts that start anew, with what was learnt in the prompt.

Every attempt is a full restart that reads the remarks of the reflections before it. Credit crosses attempts:
the return of the next attempt enters after the last turn of this one and is then discounted turn by turn, so
early attempts are paid for exploring. PivoARL's baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from turnpoint.credit import lamer_reflection_returns
from turnpoint.methods.chain import ChainSettings, play_chain, play_chains
from turnpoint.methods.chain_credit import (
    act_rows,
    chain_advantages,
    count_chains,
    credit_chain,
    reflection_rows,
    rewards,
    usable_chains,
    valid,
)
from turnpoint.methods.parts import Stateless
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Task
from turnpoint.rollouts import Rollouts, Scorer


class MetaRLSettings(ChainSettings):
    """Meta-reinforcement learning over full restarts with remarks."""

    title: ClassVar[str] = "MetaRL (LaMer)"
    paper: ClassVar[str] = "arXiv 2512.16848"
    terms: ClassVar[tuple[str, ...]] = (
        "group-relative outcome",
        "anchor-state returns (across attempts)",
        "reflection return",
    )

    kind: Literal["metarl"] = "metarl"

    def build(self) -> MetaRL:
        return MetaRL(self)


class MetaRL(Stateless):
    """See the module text."""

    def __init__(self, settings: MetaRLSettings) -> None:
        self.settings = settings
        self.tally = Tally()

    async def collect(self, tasks: Sequence[Task], rollouts: Rollouts, teachers: Teachers) -> list[Group]:
        """``group`` chains of every task; a group holds the attempts of all its chains."""
        s = self.settings
        return await play_chains(tasks, rollouts, s.rules("full"), group=s.group, attempts=s.attempts)

    async def attempts(self, task: Task, index: int, rollouts: Rollouts, count: int) -> list[Episode]:
        """One chain of at most ``count`` attempts, for evaluation."""
        return await play_chain(task, index, rollouts, self.settings.rules("full"), count)

    async def credit(self, groups: Sequence[Group], scorer: Scorer, teachers: Teachers) -> list[Row]:
        """Rows of all turns and of the reflections that were followed by an attempt.

        A reflection returns what the next attempt returns from its start, 0 if it holds no remark.
        """
        s = self.settings
        chains = usable_chains(groups, self.tally)
        credited = [credit_chain(number, chain, [None] * (len(chain) - 1), s) for number, chain in chains]
        rows = act_rows(chains, chain_advantages(credited, s, carry="lamer"), self.tally)
        returns = [
            np.where(valid(chain), lamer_reflection_returns(rewards(chain), s.gamma_step, s.gamma_traj), 0.0)
            for _, chain in chains
        ]
        rows += reflection_rows(chains, returns, s, self.tally)
        count_chains(chains, self.tally, s.attempts)
        return rows
