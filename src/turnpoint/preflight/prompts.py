"""Checks of the chat template: growing prompts, reasoning, the end of a turn."""

from __future__ import annotations

from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.prompts import ChatRenderer
from turnpoint.prompts.template import MARK
from turnpoint.records import Message

_ASK = (Message("user", "question 1"), Message("user", "question 2"))


async def template(bench: Bench) -> str:
    """What the template does with system messages and earlier reasoning; prompts that change with the date."""
    renderer = bench.run.renderer
    shown = renderer.template
    if shown.shows_date():
        raise Doubt(
            "the chat template writes today's date into every prompt, so a run that is resumed tomorrow reads other "
            'tokens; fix it with prompt.template_arguments.date_string="26 Jul 2024"'
        )
    system = "shown by the template" if shown.takes_system else "put in front of the first user message"
    kept = "kept" if shown.keeps_reasoning() else "left out"
    name = "ChatML-like (plain)" if shown.plain else "the model's own"
    return (
        f"{name}; a system message is {system}; reasoning of earlier replies is {kept} by the template itself"
    )


async def growing(bench: Bench) -> str:
    """A growing conversation in exact tokens is what the whole template is encoded as."""
    renderer = bench.run.renderer
    reply = _encode(renderer, "yes")
    end = () if renderer.end_of_turn_id is None else (renderer.end_of_turn_id,)
    messages = [_ASK[0], Message("assistant", "yes", (*reply, *end)), _ASK[1]]
    text = renderer.template.render(
        [{"role": m.role, "content": MARK if m.role == "assistant" else m.content} for m in messages]
    )
    inserted = "yes" if renderer.replies == "template" else renderer.reply_prefix + "yes"
    whole = _encode(renderer, text.replace(MARK, inserted))
    prompt = renderer.prompt_ids(messages)
    if prompt != whole:
        at = next((i for i, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), len(whole))
        raise Fault(
            f"a second prompt, made of kept tokens, has {len(prompt)} tokens where the whole template has {len(whole)} "
            f"(they part at token {at}: {_decode(renderer, prompt[at : at + 4])} for "
            f"{_decode(renderer, whole[at : at + 4])}); set prompt.earlier_replies=template, which encodes prompts "
            "whole, or prompt.template=plain"
        )
    return f"a second prompt of {len(prompt)} tokens equals the whole template, token by token"


async def rows(bench: Bench) -> str:
    """Whether an episode is one sequence, and what reasoning does to that."""
    run, renderer = bench.run, bench.run.renderer
    if run.config.prompt.history != "chat":
        return "each turn is a row of its own (prompt.history is a number of turns)"
    reply = _reasoned(renderer)
    first = renderer.prompt_ids(_ASK[:1])
    second = renderer.prompt_ids([_ASK[0], Message("assistant", renderer.reply_text(reply), reply), _ASK[1]])
    extends = renderer.extends((*first, *reply), second)
    if renderer.replies == "template":
        if extends:
            return (
                "earlier replies are rendered by the template, which leaves them as they were: one sequence"
            )
        return (
            "the template rewrites earlier replies (reasoning left out), so each turn after one with reasoning begins "
            "a row of its own: more tokens to train, shorter prompts; prompt.earlier_replies=sampled keeps them"
        )
    if not extends:
        raise Fault(
            "the second prompt of an episode does not hold the tokens that were sampled in the first turn, although "
            "prompt.earlier_replies is 'sampled': stale or rewritten tokens would be trained; set "
            "prompt.earlier_replies=template, or prompt.template=plain"
        )
    if not renderer.is_prefix_stable():
        raise Doubt(
            "the template changes earlier user turns, so each turn begins a row of its own and is read anew; "
            "prompt.template=plain would make an episode one sequence"
        )
    if renderer.template.keeps_reasoning():
        return "an episode is one sequence; reasoning stays in it, as the template has it"
    return (
        "an episode is one sequence; the template would leave out earlier reasoning, here it stays as sampled "
        "(prompt.earlier_replies=template leaves it out, with a row for each turn)"
    )


async def end_of_turn(bench: Bench) -> str:
    """The token that ends a turn is known to template and sampler alike; pad = EOS does no harm."""
    run, renderer = bench.run, bench.run.renderer
    tokenizer, end = renderer.tokenizer, renderer.end_of_turn_id
    if end is None:
        raise Doubt(
            "the chat template ends a reply with ordinary text, not with a token of its own, so the end of a turn is "
            "only learnt where the model samples one of "
            f"{_decode(renderer, sorted(run.policy.eos_ids))}; prompt.template=plain has an end token"
        )
    if end not in run.policy.eos_ids:
        raise Fault(
            f"the template ends a turn with {_decode(renderer, [end])} (id {end}), but the sampler stops only at "
            f"{_decode(renderer, sorted(run.policy.eos_ids))}: every turn would run to rollout.max_response_tokens; "
            f"add {end} to eos_token_id in the model's generation_config.json"
        )
    same = getattr(tokenizer, "pad_token_id", None) in run.policy.eos_ids
    pad = "; pad is EOS, and masks come from lengths, not from ids" if same else ""
    return f"turns end with {_decode(renderer, [end])}, at which the sampler stops{pad}"


def _reasoned(renderer: ChatRenderer) -> tuple[int, ...]:
    """A reply with reasoning, as a model would sample it."""
    end = () if renderer.end_of_turn_id is None else (renderer.end_of_turn_id,)
    ids = (*_encode(renderer, "<think>\nyes\n</think>\n\nyes"), *end)
    if not ids:
        raise NotApplicable("the tokenizer has no token for a reply")
    return ids


def _encode(renderer: ChatRenderer, text: str) -> tuple[int, ...]:
    return tuple(renderer.tokenizer.encode(text, add_special_tokens=False))


def _decode(renderer: ChatRenderer, ids: object) -> str:
    return repr(str(renderer.tokenizer.decode(list(ids), skip_special_tokens=False)))  # type: ignore[call-overload]
