"""Recovery branches: hinted turns played on from a recorded state."""

from __future__ import annotations

from turnpoint.envs import Env
from turnpoint.envs.replay import restore_turn
from turnpoint.records import Episode, EpisodeKind, Fork, StopReason, Turn
from turnpoint.rollouts.play import Rollouts, end_episode


class Branch:
    """A recovery branch: turns played on from a recorded state, kept apart from their parent.

    The first turn needs no environment, since the context is on record; the state is restored (and
    verified) only when a turn is executed.
    """

    def __init__(self, rollouts: Rollouts, parent: Episode, turn: int, name: str) -> None:
        self._rollouts = rollouts
        self._env: Env | None = None
        self.parent = parent
        self.history: list[Turn] = list(parent.turns[:turn])
        """Turns before the branch, the pivotal one included."""
        self.observation = parent.observation_at(turn)
        self.snapshot = parent.turns[turn].snapshot if turn < len(parent.turns) else parent.final_snapshot
        self.episode = Episode(
            id=f"{parent.id}/{name}",
            task=parent.task,
            kind=EpisodeKind.RECOVERY,
            forked_from=Fork(parent.id, turn),
            attempt=parent.attempt,
            step=parent.step,
        )

    @property
    def turns(self) -> list[Turn]:
        """All turns up to now: the parent's and the branch's own."""
        return [*self.history, *self.episode.turns]

    async def sample(self, hint: str | None = None) -> Turn:
        """Sample the next turn; it joins the branch only through ``keep``. Raises ``ContextOverflow``."""
        return await self._rollouts.respond(self.episode, self.observation, history=self.turns, hint=hint)

    def keep(self, turn: Turn) -> None:
        """Make a sampled turn part of the branch without executing it."""
        turn.snapshot = self.snapshot
        self.episode.turns.append(turn)

    async def step(self) -> bool:
        """Execute the last kept turn; False if the episode is over. Raises ``ReplayMismatch``, ``EnvError``."""
        rollouts, turn = self._rollouts, self.episode.turns[-1]
        if self._env is None:
            fork = self.episode.forked_from
            assert fork is not None
            self._env = rollouts.borrow()
            await rollouts.call(restore_turn, self._env, self.parent, fork.turn)
        step = await rollouts.execute(self._env, turn)
        self.observation = self.episode.final_observation = step.observation
        if self._env.capabilities.snapshots:
            self.snapshot = self.episode.final_snapshot = await rollouts.call(self._env.snapshot)
        if step.done:
            self.episode.success = step.success
        return not step.done and len(self.turns) < rollouts.max_turns

    def close(self, error: str = "") -> Episode:
        """End the branch and give its record back."""
        self._rollouts.policy.end_session(self.episode.id)
        if self._env is not None:
            self._rollouts.give_back(self._env, broken=bool(error))
            self._env = None
        end_episode(self.episode, StopReason.BRANCH_END, success=self.episode.success, error=error)
        return self.episode
