"""What the environment's oracle says about named turns and actions, for measuring who named them."""

from __future__ import annotations

from collections.abc import Sequence

from turnpoint.envs import EnvError
from turnpoint.envs.protocol import Knowledge
from turnpoint.methods.situations import resolve, situation
from turnpoint.methods.tally import Tally
from turnpoint.prompts import same_action
from turnpoint.records import Episode, Pivot, Turn
from turnpoint.rollouts import EnvCopy, Rollouts
from turnpoint.teachers.protocol import Situation


class OracleJudge:
    """Asks the oracle about recorded states, in copies of its own; an answer it cannot have is None and counted."""

    def __init__(self, rollouts: Rollouts, knowledge: Knowledge, tally: Tally) -> None:
        self.rollouts = rollouts
        self.knowledge = knowledge
        self.tally = tally

    async def pivot(self, episode: Episode, pivot: Pivot) -> tuple[bool, bool] | None:
        """Whether a mistake lies within one turn of the named one, and whether the named action is a best one there."""
        try:
            async with self.rollouts.place(), self.rollouts.envs.lend() as env:
                best = await self._best(env, situation(episode, pivot.turn))
                near = range(max(0, pivot.turn - 1), min(len(episode.turns), pivot.turn + 2))
                wrong = [await self._mistaken(env, episode, turn) for turn in near]
        except (EnvError, TimeoutError):
            self.tally.add("reliability/not_restored")
            return None
        return any(wrong), _is_best(pivot.gold_action, episode.turns[pivot.turn], best)

    async def recovery(self, parent: Episode, branch: Episode, index: int) -> bool | None:
        """Whether the action named for turn ``index`` of a recovery branch of ``parent`` is a best one there."""
        assert branch.forked_from is not None
        turn = branch.turns[index]
        before = [*parent.turns[: branch.forked_from.turn], *branch.turns[:index]]
        where = Situation(branch.task, before, turn.observation, turn.snapshot, turn=len(before))
        try:
            async with self.rollouts.place(), self.rollouts.envs.lend() as env:
                best = await self._best(env, where)
        except (EnvError, TimeoutError):
            self.tally.add("reliability/not_restored")
            return None
        return _is_best(turn.gold_actions[0], turn, best)

    async def _best(self, env: EnvCopy, where: Situation) -> list[str]:
        await env.restore(where.as_episode(), len(where.turns))
        self.tally.add("reliability/states_asked")
        return await env.call(env.env.best_actions, self.knowledge)

    async def _mistaken(self, env: EnvCopy, episode: Episode, number: int) -> bool:
        """Whether a turn was a mistake: not among the best, and with full knowledge the distance rose as well."""
        best = await self._best(env, situation(episode, number))
        turn = episode.turns[number]
        if not best or (turn.effective and _is_best(turn.executed, turn, best)):
            return False
        if self.knowledge == "observed":
            return True
        before = await env.call(env.env.distance)
        await env.restore(episode, number + 1)
        after = await env.call(env.env.distance)
        return before is not None and (after is None or after > before)


def _is_best(action: str | None, turn: Turn, best: Sequence[str]) -> bool:
    meant = resolve(action, turn.observation)
    return meant is not None and any(
        meant == good or same_action(meant, good, turn.observation.admissible) for good in best
    )
