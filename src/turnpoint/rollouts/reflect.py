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

    Its tokens count as sampled. Without ``pivot`` only a remark is asked for. Where a conversation leaves no room
    for the answer (an attempt may have failed for that very reason), a message of its own asks instead; if that
    does not fit the model either, the reflection is invalid and has no tokens. Raises ``ValueError`` for an
    episode without turns.
    """
    renderer, context = rollouts.renderer, rollouts.policy.context_length
    messages = reflection_messages(rollouts.prompter, episode, pivot=pivot)
    if len(renderer.prompt_ids(messages)) + max_tokens > context:
        messages = reflection_messages(rollouts.prompter, episode, pivot=pivot, standalone=True)
    try:
        sample = await rollouts.complete(messages, key=f"{episode.id}#reflect", max_tokens=max_tokens)
    except ContextOverflow:
        return Reflection(messages=messages)
    rollouts.turns.sampled_tokens += len(sample.token_ids)
    text = renderer.reply_text(sample.token_ids)
    reply = parse_reflection(text, len(episode.turns), truncated=sample.truncated, pivot=pivot)
    return Reflection(
        messages=messages,
        prompt_ids=renderer.prompt_ids(messages),
        response_ids=sample.token_ids,
        logprobs=sample.logprobs,
        response=text,
        truncated=sample.truncated,
        pivot=reply.pivot,
        remark=reply.remark,
        valid=reply.valid,
    )
