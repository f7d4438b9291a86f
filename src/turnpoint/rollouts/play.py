"""Playing episodes: many at once, with stop rules, restarts from recorded turns, and branches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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

T = TypeVar("T")
AfterTurn = Callable[[Episode], Awaitable[StopReason | None]]
"""Called when a turn is complete and the episode would go on; a reason stops it after that turn."""


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
            temperature=getattr(policy, "temperature", 1.0) if temperature is None else temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_tokens=settings.max_response_tokens,
        )
        self.prompt_limit = prompter.settings.max_prompt_tokens or policy.context_length
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
                    await self._play(episode, env, start, after_turn, depth)
            except TimeoutError:
                _end(episode, StopReason.TIME_OUT, error="the wall clock of the episode ran out")
            except ReplayMismatch as error:
                _end(episode, StopReason.RESTORE_MISMATCH, error=str(error))
            except ContextOverflow as error:
                _end(episode, StopReason.CONTEXT_LIMIT, error=str(error))
            except EnvError as error:
                _end(episode, StopReason.ENV_ERROR, error=str(error))
            finally:
                self.policy.end_session(episode.id)
            episode.seconds = time.monotonic() - began
        return episode

    async def _play(
        self, episode: Episode, env: Env, start: Start | None, after_turn: AfterTurn | None, depth: int | None
    ) -> None:
        if start is None:
            observation = await self._call(env.reset, episode.task)
        else:
            observation = await self._call(restore_turn, env, start.episode, start.turn)
            episode.turns = [replace(turn, reused=True) for turn in start.episode.turns[: start.turn]]
        generated = 0
        while True:
            episode.final_observation = observation
            if len(episode.turns) >= self.max_turns:
                return _end(episode, StopReason.MAX_TURNS, success=False)
            if depth is not None and generated >= depth:
                return _end(episode, StopReason.DEPTH_CAP)
            turn = await self.respond(episode, observation)
            episode.turns.append(turn)  # before it is executed: a crash must not lose what was sampled
            await self._measure(turn, env)
            step = await self._execute(env, turn)
            generated += 1
            observation = episode.final_observation = step.observation
            if step.done:
                return await self._finish(episode, env, step)
            if after_turn is not None and (reason := await after_turn(episode)) is not None:
                await self._keep_final(episode, env)
                return _end(episode, reason)
            await self._keep_final(episode, env)

    async def respond(
        self,
        episode: Episode,
        observation: Observation,
        *,
        history: Sequence[Turn] | None = None,
        hint: str | None = None,
        salt: str = "",
    ) -> Turn:
        """Sample one turn; the environment is not touched. Raises ``ContextOverflow``.

        ``history`` are the turns before it (default: the episode's own). ``Turn.messages`` never hold the
        hint; ``Turn.prompt_ids`` are what the policy read.
        """
        turns = episode.turns if history is None else history
        messages = self.prompter.messages(episode.task, turns, observation, remarks=episode.attempt.remarks)
        seen = messages if hint is None else self.prompter.with_hint(messages, hint)
        prompt = self.renderer.prompt_ids(seen)
        seed = self.streams.seed("sample", episode.id, len(turns), salt)
        sample = await self._sample(f"{episode.id}#{len(turns)}{salt}", prompt, seed, episode.id)
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
        return Branch(self, episode, turn, name)

    async def _execute(self, env: Env, turn: Turn) -> Step:
        if env.capabilities.snapshots:
            turn.snapshot = await self._call(env.snapshot)
        step = await self._call(env.step, turn.executed)
        turn.reward, turn.done, turn.effective = step.reward, step.done, step.effective
        return step

    async def _measure(self, turn: Turn, env: Env) -> None:
        if self.measure:
            turn.distance = await self._call(env.distance)

    async def _keep_final(self, episode: Episode, env: Env) -> None:
        if env.capabilities.snapshots:
            episode.final_snapshot = await self._call(env.snapshot)
        if self.measure:
            episode.final_distance, episode.distances_known = await self._call(env.distance), True

    async def _finish(self, episode: Episode, env: Env, step: Step) -> None:
        await self._keep_final(episode, env)
        _end(episode, StopReason.SUCCESS if step.success else StopReason.FAILURE, success=bool(step.success))

    @asynccontextmanager
    async def _env(self) -> Any:
        """An environment copy; one whose episode ended in an exception is closed, not reused."""
        env = self._idle.pop() if self._idle else self.suite.make()
        try:
            yield env
        except BaseException:
            _close_quietly(env)
            raise
        self._idle.append(env)

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
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
            self._env = rollouts._idle.pop() if rollouts._idle else rollouts.suite.make()
            await rollouts._call(restore_turn, self._env, self.parent, fork.turn)
        step = await rollouts._execute(self._env, turn)
        self.observation = self.episode.final_observation = step.observation
        if self._env.capabilities.snapshots:
            self.snapshot = self.episode.final_snapshot = await rollouts._call(self._env.snapshot)
        if step.done:
            self.episode.success = step.success
        return not step.done and len(self.turns) < rollouts.max_turns

    def close(self, error: str = "") -> Episode:
        """End the branch and give its record back."""
        self._rollouts.policy.end_session(self.episode.id)
        if self._env is not None:
            if error:
                _close_quietly(self._env)
            else:
                self._rollouts._idle.append(self._env)
            self._env = None
        _end(self.episode, StopReason.BRANCH_END, success=self.episode.success, error=error)
        return self.episode


def _end(episode: Episode, reason: StopReason, *, success: bool | None = None, error: str = "") -> None:
    episode.stop, episode.error = reason, error
    episode.success = success if success is not None or not reason.has_outcome else False


def _close_quietly(env: Env) -> None:
    try:
        env.close()
    except Exception:
        return  # a broken copy is given up anyway; its failure is already on record
