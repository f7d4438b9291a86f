"""Recovery branches: hinted turns played on from a recorded state."""

from __future__ import annotations

from turnpoint.envs import EnvError
from turnpoint.records import Episode, EpisodeKind, Fork, StopReason, Turn
from turnpoint.rollouts.ending import end_episode
from turnpoint.rollouts.envs import EnvCopy, EnvPool
from turnpoint.rollouts.turns import TurnSampler


class Branch:
    """A recovery branch: turns played on from a recorded state, kept apart from their parent.

    The first turn needs no environment, since the context is on record; the state is restored (and
    verified) only when a turn is executed. Play it inside ``Rollouts.place``; ``close`` it in any case.
    """

    def __init__(
        self, turns: TurnSampler, envs: EnvPool, max_turns: int, parent: Episode, turn: int, name: str
    ) -> None:
        self._sampler = turns
        self._envs = envs
        self._max_turns = max_turns
        self._env: EnvCopy | None = None
        self._sound = True
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
        """Sample the next turn; it joins the branch only through ``keep``. Raises ``ContextOverflow``.

        Its tokens count as sampled: who does not keep them says so in the tally.
        """
        turn = await self._sampler.respond(self.episode, self.observation, history=self.turns, hint=hint)
        self._sampler.sampled_tokens += len(turn.response_ids)
        return turn

    def keep(self, turn: Turn) -> None:
        """Make a sampled turn part of the branch without executing it."""
        turn.snapshot = self.snapshot
        self.episode.turns.append(turn)

    async def step(self) -> bool:
        """Execute the last kept turn; False if the episode is over.

        Raises ``ReplayMismatch`` and ``EnvError``, and ``TimeoutError`` where the environment hangs.
        """
        self._sound = False  # until all of this went well
        if self._env is None:
            self._env = await self._envs.borrow()
            await self._restore(self._env, self.turns[:-1])
        step = await self._env.execute(self.episode.turns[-1])
        self.observation = self.episode.final_observation = step.observation
        self.snapshot = self.episode.final_snapshot = await self._env.snapshot()
        self._sound = True
        if step.done:
            self.episode.success = step.success
        return not step.done and len(self.turns) < self._max_turns

    async def _restore(self, env: EnvCopy, executed: list[Turn]) -> None:
        """Bring the state after ``executed`` back, verified: the state of the parent, or where ``pause`` left off."""
        past = Episode(
            id=self.parent.id,
            task=self.parent.task,
            turns=executed,
            final_observation=self.observation,
            final_snapshot=self.snapshot,
        )
        await env.restore(past, len(executed))

    def pause(self) -> None:
        """Give the environment back where copies are limited; the next ``step`` brings its state back.

        To be called before anything that needs a copy of its own: branches that each hold one and wait for another
        would wait for ever.
        """
        if self._envs.workers is not None:
            self._let_go()

    def _let_go(self) -> None:
        if self._env is not None:
            self._envs.give_back(self._env, broken=not self._sound)
            self._env = None

    async def distance(self) -> int | None:
        """The oracle's distance in the state that ``step`` led to; None if the task is impossible from there.

        Raises ``EnvError``, also before the first step and after ``pause``, and ``TimeoutError`` as calls do.
        """
        if self._env is None:
            raise EnvError("this branch holds no environment, so there is no state to measure")
        self._sound = False
        distance = await self._env.call(self._env.env.distance)
        self._sound = True
        return distance

    def close(self, error: str = "") -> Episode:
        """End the branch and give its record back; an environment in which something went wrong is closed."""
        self._sampler.policy.end_session(self.episode.id)
        self._let_go()
        end_episode(self.episode, StopReason.BRANCH_END, success=self.episode.success, error=error)
        return self.episode
