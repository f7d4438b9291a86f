"""Sampling turns: prompts in exact tokens, model calls, and what the replies mean."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from turnpoint.policy import ContextOverflow, Policy, Sample, SampleRequest, Sampling
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Episode, Message, Observation, StopReason, Turn
from turnpoint.rollouts.sampler import Sampler
from turnpoint.rollouts.settings import RolloutSettings
from turnpoint.rollouts.streams import Streams


@dataclass(frozen=True, slots=True)
class WithinTurn:
    """A stop rule that looks at a turn while it is being sampled."""

    piece: int
    """Tokens sampled between two looks."""
    look: Callable[[Episode, Turn], Awaitable[StopReason | None]]
    """Given the unfinished turn, not yet part of the episode; a reason ends the episode with it, unexecuted."""


class TurnSampler:
    """Lets the policy speak; environments are not touched."""

    def __init__(
        self,
        policy: Policy,
        prompter: Prompter,
        renderer: ChatRenderer,
        settings: RolloutSettings,
        streams: Streams,
        sampler: Sampler,
    ) -> None:
        self.policy = policy
        self.prompter = prompter
        self.renderer = renderer
        self.streams = streams
        self.sampler = sampler
        temperature = settings.temperature
        self.sampling = Sampling(
            temperature=policy.temperature if temperature is None else temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_tokens=settings.max_response_tokens,
        )
        self.prompt_limit = prompter.settings.max_prompt_tokens or policy.context_length
        self.sampled_tokens = 0
        """Tokens of all turns and reflections so far; each is trained or dropped with a reason. A turn counts when it
        goes on record, so what a time-out cut off is in neither place."""

    async def respond(
        self,
        episode: Episode,
        observation: Observation,
        *,
        history: Sequence[Turn] | None = None,
        hint: str | None = None,
        max_tokens: int | None = None,
    ) -> Turn:
        """Sample one turn; the caller counts its tokens. Raises ``ContextOverflow``.

        ``history`` are the turns before it (default: the episode's own). ``Turn.messages`` never hold the
        hint; ``Turn.prompt_ids`` are what the policy read. ``max_tokens`` lowers the usual limit.
        """
        turns = episode.turns if history is None else history
        messages = self.prompter.messages(episode.task, turns, observation, remarks=episode.attempt.remarks)
        seen = messages if hint is None else self.prompter.with_hint(messages, hint)
        prompt = self.renderer.prompt_ids(seen)
        seed = self.streams.seed("sample", episode.id, len(turns), "")
        key = f"{episode.id}#{len(turns)}"
        sample = await self._sample(key, prompt, seed, episode.id, max_tokens=max_tokens)
        turn = Turn(
            index=len(turns),
            observation=observation,
            messages=tuple(messages),
            prompt_ids=prompt,
            hint=hint,
        )
        self._take(turn, sample)
        return turn

    async def respond_in_pieces(
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
        key = f"{episode.id}#{turn.index}+{said:06d}"
        seed = self.streams.seed("sample", episode.id, turn.index, said)
        prompt = (*turn.prompt_ids, *turn.response_ids)
        self._take(
            turn, await self._sample(key, prompt, seed, episode.id, max_tokens=max_tokens, own_limit=True)
        )

    def _take(self, turn: Turn, sample: Sample) -> None:
        """Append what was sampled to a turn, and read the whole anew."""
        turn.response_ids += sample.token_ids
        turn.logprobs += sample.logprobs
        turn.truncated = sample.truncated
        turn.response = self.renderer.reply_text(turn.response_ids)
        turn.action = self.prompter.parse(turn.response)
        turn.executed = turn.action if turn.action is not None else ""

    async def complete(
        self, messages: Sequence[Message], *, key: str, step: int, max_tokens: int = 1024
    ) -> Sample:
        """One free-standing model call (reflections, the self teacher). Raises ``ContextOverflow``."""
        prompt = self.renderer.prompt_ids(messages)
        seed = self.streams.seed("complete", step, key)
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
