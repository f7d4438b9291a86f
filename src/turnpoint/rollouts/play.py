"""Playing episodes: many at once, with stop rules, restarts from recorded turns, and branches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from turnpoint.envs import Env, EnvError, EnvSuite
from turnpoint.envs.replay import ReplayMismatch, restore_turn
from turnpoint.policy import ContextOverflow, Policy, Sample, SampleRequest, Sampling
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import (
    Attempt,
    Episode,
    EpisodeKind,
    Fork,
    Message,
    Observation,
    Step,
    StopReason,
    Task,
    Turn,
)
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.settings import RolloutSettings
from turnpoint.rollouts.streams import Streams

if TYPE_CHECKING:
    from turnpoint.rollouts.branch import Branch

T = TypeVar("T")
AfterTurn = Callable[[Episode], Awaitable[StopReason | None]]
"""Called when a turn is complete and the episode would go on; a reason stops it after that turn."""


@dataclass(frozen=True, slots=True)
class WithinTurn:
    """A stop rule that looks at a turn while it is being sampled."""

    piece: int
    """Tokens sampled between two looks."""
    look: Callable[[Episode, Turn], Awaitable[StopReason | None]]
    """Given the unfinished turn, not yet part of the episode; a reason ends the episode with it, unexecuted."""


@dataclass(frozen=True, slots=True)
class Start:
    """Go on from a recorded state: turns ``0..turn-1`` of ``episode`` are reused, not re-generated."""

    episode: Episode
    turn: int


class Rollouts:
    """Plays episodes of one suite with one policy; shared by all methods.

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
    ) -> None:
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
        temperature = settings.temperature
        self.sampling = Sampling(
            temperature=policy.temperature if temperature is None else temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_tokens=settings.max_response_tokens,
        )
        self.prompt_limit = prompter.settings.max_prompt_tokens or policy.context_length
        policy.forget_sessions()  # a resumed run has no caches of earlier steps either
        self.sampler = Sampler(policy, lockstep=settings.lockstep)
        self.sampled_tokens = 0
        """Tokens of all turns sampled so far; each is trained or dropped with a reason."""
        self._idle: list[Env] = []
        self._places = asyncio.Semaphore(settings.concurrent)

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
        async with self._places:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self.settings.episode_seconds), self._env() as env:
                    await self._play(episode, env, start, after_turn, within_turn, depth)
            except TimeoutError:
                end_episode(episode, StopReason.TIME_OUT, error="the wall clock of the episode ran out")
            except ReplayMismatch as error:
                end_episode(episode, StopReason.RESTORE_MISMATCH, error=str(error))
            except ContextOverflow as error:
                end_episode(episode, StopReason.CONTEXT_LIMIT, error=str(error))
            except EnvError as error:
                end_episode(episode, StopReason.ENV_ERROR, error=str(error))
            finally:
                self.policy.end_session(episode.id)
            episode.seconds = time.monotonic() - began
        return episode

    async def _play(
        self,
        episode: Episode,
        env: Env,
        start: Start | None,
        after_turn: AfterTurn | None,
        within_turn: WithinTurn | None,
        depth: int | None,
    ) -> None:
        if start is None:
            observation = await self.call(env.reset, episode.task)
        else:
            observation = await self.call(restore_turn, env, start.episode, start.turn)
            episode.turns = [replace(turn, reused=True) for turn in start.episode.turns[: start.turn]]
        generated = 0
        while True:
            episode.final_observation = observation
            if len(episode.turns) >= self.max_turns:
                return end_episode(episode, StopReason.MAX_TURNS, success=False)
            if depth is not None and generated >= depth:
                return end_episode(episode, StopReason.DEPTH_CAP)
            broken_off = None
            if within_turn is None:
                turn = await self.respond(episode, observation)
            else:
                turn, broken_off = await self._respond_in_pieces(episode, observation, within_turn)
            episode.turns.append(turn)  # before it is executed: a crash must not lose what was sampled
            if broken_off is not None:
                return end_episode(episode, broken_off)
            await self._measure(turn, env)
            step = await self.execute(env, turn)
            generated += 1
            observation = episode.final_observation = step.observation
            if step.done:
                return await self._finish(episode, env, step)
            if after_turn is not None and (reason := await after_turn(episode)) is not None:
                await self._keep_final(episode, env)
                return end_episode(episode, reason)
            await self._keep_final(episode, env)

    async def respond(
        self,
        episode: Episode,
        observation: Observation,
        *,
        history: Sequence[Turn] | None = None,
        hint: str | None = None,
        salt: str = "",
        max_tokens: int | None = None,
    ) -> Turn:
        """Sample one turn; the environment is not touched. Raises ``ContextOverflow``.

        ``history`` are the turns before it (default: the episode's own). ``Turn.messages`` never hold the
        hint; ``Turn.prompt_ids`` are what the policy read. ``max_tokens`` lowers the usual limit.
        """
        turns = episode.turns if history is None else history
        messages = self.prompter.messages(episode.task, turns, observation, remarks=episode.attempt.remarks)
        seen = messages if hint is None else self.prompter.with_hint(messages, hint)
        prompt = self.renderer.prompt_ids(seen)
        seed = self.streams.seed("sample", episode.id, len(turns), salt)
        key = f"{episode.id}#{len(turns)}{salt}"
        sample = await self._sample(key, prompt, seed, episode.id, max_tokens=max_tokens)
        self.sampled_tokens += len(sample.token_ids)
        text = self.renderer.reply_text(sample.token_ids)
        action = self.prompter.parse(text)
        return Turn(
            index=len(turns),
            observation=observation,
            messages=tuple(messages),
            prompt_ids=prompt,
            response_ids=sample.token_ids,
            logprobs=sample.logprobs,
            response=text,
            truncated=sample.truncated,
            action=action,
            executed=action if action is not None else "",
            hint=hint,
        )

    async def _respond_in_pieces(
        self, episode: Episode, observation: Observation, within_turn: WithinTurn
    ) -> tuple[Turn, StopReason | None]:
        """A turn sampled piece by piece, and why it was broken off, if it was. Raises ``ContextOverflow``."""
        size, longest = within_turn.piece, self.sampling.max_tokens
        turn = await self.respond(episode, observation, max_tokens=min(size, longest))
        longest = min(longest, self.policy.context_length - len(turn.prompt_ids))
        while turn.truncated and len(turn.response_ids) < longest:
            if (reason := await within_turn.look(episode, turn)) is not None:
                return turn, reason
            await self._go_on(episode, turn, min(size, longest - len(turn.response_ids)))
        return turn, None

    async def _go_on(self, episode: Episode, turn: Turn, max_tokens: int) -> None:
        """Sample more tokens of an unfinished turn, in place."""
        said = len(turn.response_ids)
        key, seed = (
            f"{episode.id}#{turn.index}+{said:06d}",
            self.streams.seed("sample", episode.id, turn.index, said),
        )
        prompt = (*turn.prompt_ids, *turn.response_ids)
        sample = await self._sample(key, prompt, seed, episode.id, max_tokens=max_tokens, own_limit=True)
        self.sampled_tokens += len(sample.token_ids)
        turn.response_ids += sample.token_ids
        turn.logprobs += sample.logprobs
        turn.truncated = sample.truncated
        turn.response = self.renderer.reply_text(turn.response_ids)
        turn.action = self.prompter.parse(turn.response)
        turn.executed = turn.action if turn.action is not None else ""

    async def complete(self, messages: Sequence[Message], *, key: str, max_tokens: int = 1024) -> Sample:
        """One free-standing model call (reflections, the self teacher)."""
        prompt = self.renderer.prompt_ids(messages)
        seed = self.streams.seed("complete", self.step, key)
        return await self._sample(key, prompt, seed, "", max_tokens=max_tokens, own_limit=True)

    async def _sample(
        self,
        key: str,
        prompt: tuple[int, ...],
        seed: int,
        session: str,
        *,
        max_tokens: int | None = None,
        own_limit: bool = False,
    ) -> Sample:
        longest = self.policy.context_length
        prompt_limit = longest if own_limit else self.prompt_limit
        room = min(max_tokens or self.sampling.max_tokens, longest - len(prompt))
        if room < 1 or len(prompt) > prompt_limit:
            raise ContextOverflow(
                f"the prompt has {len(prompt)} tokens; at most {prompt_limit} prompt and {longest} prompt plus "
                "response tokens fit: raise prompt.max_prompt_tokens, shorten prompt.history, or lower "
                "rollout.max_turns"
            )
        return await self.sampler.sample(
            key, SampleRequest(prompt, seed, replace(self.sampling, max_tokens=room), session)
        )

    def branch(self, episode: Episode, turn: int, *, name: str) -> Branch:
        """Open a recovery branch at the state before ``turn`` (``len(turns)``: after the last)."""
        from turnpoint.rollouts.branch import Branch

        return Branch(self, episode, turn, name)

    def borrow(self) -> Env:
        """An idle environment copy, or a new one; ``give_back`` or close it."""
        return self._idle.pop() if self._idle else self.suite.make()

    def give_back(self, env: Env, *, broken: bool = False) -> None:
        """Return a borrowed copy; a broken one is closed."""
        if broken:
            _close_quietly(env)
        else:
            self._idle.append(env)

    async def execute(self, env: Env, turn: Turn) -> Step:
        """Step ``env`` with what a turn gives it and record the outcome in the turn. Raises ``EnvError``."""
        if env.capabilities.snapshots:
            turn.snapshot = await self.call(env.snapshot)
        step = await self.call(env.step, turn.executed)
        turn.reward, turn.done, turn.effective = step.reward, step.done, step.effective
        return step

    async def _measure(self, turn: Turn, env: Env) -> None:
        if self.measure:
            turn.distance = await self.call(env.distance)

    async def _keep_final(self, episode: Episode, env: Env) -> None:
        if env.capabilities.snapshots:
            episode.final_snapshot = await self.call(env.snapshot)
        if self.measure:
            episode.final_distance, episode.distances_known = await self.call(env.distance), True

    async def _finish(self, episode: Episode, env: Env, step: Step) -> None:
        await self._keep_final(episode, env)
        end_episode(
            episode, StopReason.SUCCESS if step.success else StopReason.FAILURE, success=bool(step.success)
        )

    @asynccontextmanager
    async def _env(self) -> AsyncIterator[Env]:
        """An environment copy; one whose episode ended in an exception is closed, not reused."""
        env = self.borrow()
        try:
            yield env
        except BaseException:
            self.give_back(env, broken=True)
            raise
        self.give_back(env)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call into an environment; whatever it raises becomes an ``EnvError`` with its text."""
        try:
            if self.settings.env_seconds is None:
                return function(*arguments)
            self.sampler.busy += 1
            try:
                async with asyncio.timeout(self.settings.env_seconds):
                    return await asyncio.to_thread(function, *arguments)
            finally:
                self.sampler.busy -= 1
        except (EnvError, TimeoutError):
            raise
        except Exception as error:
            raise EnvError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close idle environments."""
        while self._idle:
            _close_quietly(self._idle.pop())


def end_episode(
    episode: Episode, reason: StopReason, *, success: bool | None = None, error: str = ""
) -> None:
    """Close the record of an episode; reasons with an outcome count as failures unless told otherwise."""
    episode.stop, episode.error = reason, error
    episode.success = success if success is not None or not reason.has_outcome else False


def _close_quietly(env: Env) -> None:
    try:
        env.close()
    except Exception:
        return  # a broken copy is given up anyway; its failure is already on record
