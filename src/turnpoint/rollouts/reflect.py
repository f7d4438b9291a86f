"""Reflections: what the policy itself says about an attempt that failed (PivoARL, MetaRL)."""

from __future__ import annotations

from turnpoint.policy import ContextOverflow
from turnpoint.prompts import parse_reflection, reflection_messages
from turnpoint.records import Episode, Reflection
from turnpoint.rollouts.play import Rollouts


async def reflect(
    rollouts: Rollouts, episode: Episode, *, pivot: bool = True, max_tokens: int = 512
) -> Reflection:
    """Ask the policy for the earliest wrong turn of ``episode`` and a remark; one model call.

    Its tokens count as sampled. Without ``pivot`` only a remark is asked for. A prompt that does not fit the
    model gives an invalid reflection without tokens, never an exception. Raises ``ValueError`` for an episode
    without turns.
    """
    messages = reflection_messages(rollouts.prompter, episode, pivot=pivot)
    try:
        sample = await rollouts.complete(messages, key=f"{episode.id}#reflect", max_tokens=max_tokens)
    except ContextOverflow:
        return Reflection(messages=messages)
    rollouts.sampled_tokens += len(sample.token_ids)
    text = rollouts.renderer.reply_text(sample.token_ids)
    reply = parse_reflection(text, len(episode.turns), truncated=sample.truncated, pivot=pivot)
    return Reflection(
        messages=messages,
        prompt_ids=rollouts.renderer.prompt_ids(messages),
        response_ids=sample.token_ids,
        logprobs=sample.logprobs,
        response=text,
        truncated=sample.truncated,
        pivot=reply.pivot,
        remark=reply.remark,
        valid=reply.valid,
    )
