"""Playing episodes: many at once, with stop rules, restarts from recorded turns, and branches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from turnpoint.envs import EnvSuite
from turnpoint.policy import Policy, Sample
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Attempt, Episode, EpisodeKind, Fork, Message, Step, StopReason, Task, Turn
from turnpoint.rollouts.branch import Branch
from turnpoint.rollouts.ending import FAULTS, end_episode, end_with_fault
from turnpoint.rollouts.envs import EnvCopy, EnvPool
from turnpoint.rollouts.remote import EnvWorkers
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.settings import RolloutSettings
from turnpoint.rollouts.streams import Streams
from turnpoint.rollouts.turns import TurnSampler, WithinTurn

AfterTurn = Callable[[Episode], Awaitable[StopReason | None]]
"""Called when a turn is complete and the episode would go on; a reason stops it after that turn."""


@dataclass(frozen=True, slots=True)
class Start:
    """Go on from a recorded state: turns ``0..turn-1`` of ``episode`` are reused, not re-generated."""

    episode: Episode
    turn: int


class Rollouts:
    """Plays episodes of one suite with one policy; shared by all methods. ``close`` it before the policy changes.

    A bad episode is a record with a typed stop reason, never an exception: environment errors, hangs and
    failed restores end the episode that met them and nothing else.
    """

    def __init__(
        self,
        suite: EnvSuite,
        policy: Policy,
        prompter: Prompter,
        renderer: ChatRenderer,
        settings: RolloutSettings,
        streams: Streams,
        *,
        step: int = 0,
        prefix: str | None = None,
        measure: bool = False,
        workers: EnvWorkers | None = None,
    ) -> None:
        """``workers``: processes in which environment copies live, those of the run; None = in this one."""
        self.suite = suite
        self.policy = policy
        self.prompter = prompter
        self.renderer = renderer
        self.settings = settings
        self.streams = streams
        self.step = step
        self.prefix = f"s{step}" if prefix is None else prefix
        """First part of episode ids, and so of their random streams."""
        self.measure = measure and suite.capabilities.oracle
        """Record the oracle's distance before every turn (evaluation and analysis)."""
        self.max_turns = settings.max_turns or suite.max_turns
        policy.forget_sessions()  # a resumed run has no caches of earlier steps either
        self.sampler = Sampler(policy, lockstep=settings.lockstep)
        self.turns = TurnSampler(policy, prompter, renderer, settings, streams, self.sampler)
        self.envs = EnvPool(suite, self.sampler, settings.env_seconds, workers)
        self.finished = 0
        """Episodes that have come to an end, however that was; recovery branches are not counted."""
        self._places = asyncio.Semaphore(settings.concurrent)

    @property
    def sampled_tokens(self) -> int:
        """Tokens of all turns on record so far; each is trained or dropped with a reason."""
        return self.turns.sampled_tokens

    async def play(
        self,
        task: Task,
        index: int,
        *,
        start: Start | None = None,
        attempt: Attempt | None = None,
        after_turn: AfterTurn | None = None,
        within_turn: WithinTurn | None = None,
        depth: int | None = None,
        kind: EpisodeKind = EpisodeKind.ROLLOUT,
        name: str = "",
    ) -> Episode:
        """Play one episode to its end.

        Args:
            index: Number of the episode within its task and step; names its random streams.
            start: Restart from a recorded state, verified; a mismatch ends the episode with
                ``RESTORE_MISMATCH`` before any turn is generated.
            attempt: Place in a chain; its remarks go into the task prompt.
            after_turn: Stop rule, asked after each completed turn.
            within_turn: Stop rule, asked while a turn is sampled piece by piece.
            depth: Most turns to generate (a curriculum's cap); the episode then has no outcome.
            name: Distinguishes several episodes of the same index (retries, replays).
        """
        attempt = attempt or Attempt()
        episode = Episode(
            id="/".join(filter(None, [self.prefix, task.id, str(index), name])),
            task=task,
            kind=kind,
            attempt=attempt,
            step=self.step,
        )
        if start is not None:
            episode.forked_from = Fork(start.episode.id, start.turn)
        began = time.monotonic()
        try:
            async with self.place(), self.envs.lend() as env:
                began = time.monotonic()
                await self._play(episode, env, start, after_turn, within_turn, depth)
        except FAULTS as fault:
            end_with_fault(episode, fault)
        finally:
            self.policy.end_session(episode.id)
        episode.seconds = time.monotonic() - began
        self.finished += 1
        return episode

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the ``rollout.concurrent`` places, with the wall clock of an episode. Raises ``TimeoutError``."""
        async with self._places, asyncio.timeout(self.settings.episode_seconds):
            yield

    async def _play(
        self,
        episode: Episode,
        env: EnvCopy,
        start: Start | None,
        after_turn: AfterTurn | None,
        within_turn: WithinTurn | None,
        depth: int | None,
    ) -> None:
        if start is None:
            observation = await env.reset(episode.task)
        else:
            observation = await env.restore(start.episode, start.turn)
            episode.turns = [replace(turn, reused=True) for turn in start.episode.turns[: start.turn]]
        generated = 0
        while True:
            episode.final_observation = observation
            if len(episode.turns) >= self.max_turns:
                return end_episode(episode, StopReason.MAX_TURNS, success=False)
            if depth is not None and generated >= depth:
                return end_episode(episode, StopReason.DEPTH_CAP)
            if (broken_off := await self._speak(episode, within_turn)) is not None:
                return end_episode(episode, broken_off)
            turn = episode.turns[-1]
            await self._measure(turn, env)
            step = await env.execute(turn)
            generated += 1
            observation = episode.final_observation = step.observation
            episode.score = step.score
            if step.done:
                return await self._finish(episode, env, step)
            reason = None if after_turn is None else await after_turn(episode)
            await self._keep_final(episode, env)
            if reason is not None:
                return end_episode(episode, reason)

    async def _speak(self, episode: Episode, within_turn: WithinTurn | None) -> StopReason | None:
        """Sample the turn that answers ``final_observation``, onto the record before it is executed.

        Gives the reason why it was broken off, if it was.
        """
        observation, broken_off = episode.final_observation, None
        assert observation is not None
        if within_turn is None:
            turn = await self.turns.respond(episode, observation)
        else:
            turn, broken_off = await self.turns.respond_in_pieces(episode, observation, within_turn)
        self.turns.sampled_tokens += len(turn.response_ids)
        episode.turns.append(turn)
        return broken_off

    async def complete(self, messages: Sequence[Message], *, key: str, max_tokens: int = 1024) -> Sample:
        """One free-standing model call (reflections, the self teacher). Raises ``ContextOverflow``."""
        return await self.turns.complete(messages, key=key, step=self.step, max_tokens=max_tokens)

    def branch(self, episode: Episode, turn: int, *, name: str) -> Branch:
        """Open a recovery branch at the state before ``turn`` (``len(turns)``: after the last)."""
        return Branch(self.turns, self.envs, self.max_turns, episode, turn, name)

    async def _measure(self, turn: Turn, env: EnvCopy) -> None:
        if self.measure:
            turn.distance = await env.call(env.env.distance)

    async def _keep_final(self, episode: Episode, env: EnvCopy) -> None:
        episode.final_snapshot = await env.snapshot()
        if self.measure:
            episode.final_distance, episode.distances_known = await env.call(env.env.distance), True

    async def _finish(self, episode: Episode, env: EnvCopy, step: Step) -> None:
        await self._keep_final(episode, env)
        end_episode(
            episode, StopReason.SUCCESS if step.success else StopReason.FAILURE, success=bool(step.success)
        )

    async def close(self) -> None:
        """Run queued model calls to their end, those of episodes that ran out of time too, and close environments."""
        try:
            await self.sampler.finish()
        finally:
            await self.envs.close()
