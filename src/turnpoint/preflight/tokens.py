"""Checks of the tiny step's tokens: what was sampled is what is trained, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turnpoint.preflight.bench import Bench, TinyStep
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.records import Reflection, Row, RowKind, Turn
from turnpoint.training.loop import conserve, rows_anew

Call = Turn | Reflection


async def tiny_step(bench: Bench) -> str:
    """The method collects and credits episodes of a few tasks."""
    method = bench.run.config.method
    if not method.trains and bench.run.config.train.steps:
        raise Fault(
            f"method '{method.kind}' only prompts the policy; set train.steps=0, or use turnpoint eval"
        )
    if not method.trains:
        raise NotApplicable(f"method '{method.kind}' only prompts the policy")
    step = await bench.first_step()
    stops = rollout_stops(step)
    return (
        f"{len(step.episodes)} episodes of {len(bench.tasks)} tasks ({stops}), {len(step.turns)} turns, "
        f"{step.sampled_tokens} sampled tokens, {len(step.rows)} rows"
    )


def rollout_stops(step: TinyStep) -> str:
    """Stop reasons with their numbers, and the first error if there was one."""
    counts: dict[str, int] = {}
    for episode in step.episodes:
        counts[str(episode.stop)] = counts.get(str(episode.stop), 0) + 1
    text = ", ".join(f"{count} {stop}" for stop, count in sorted(counts.items()))
    errors = [episode.error for episode in step.episodes if episode.error]
    return f"{text}; first error: {errors[0][:200]}" if errors else text


async def conserved(bench: Bench) -> str:
    """Every sampled token is in a row or was dropped by name."""
    step = bench.need_step()
    try:
        conserve(0, step.sampled_tokens, step.rows, step.tally)
    except RuntimeError as error:
        raise Fault(
            f"{error}; mend credit() of the method: a row for each turn, or a count of what it drops"
        ) from None
    dropped = {name: n for name, n in step.tally.items() if name.startswith("dropped_tokens/") and n}
    told = ", ".join(f"{int(n)} {name.removeprefix('dropped_tokens/')}" for name, n in dropped.items())
    return (
        f"{step.sampled_tokens} tokens sampled, all in rows{f' or dropped by name ({told})' if told else ''}"
    )


async def only_sampled(bench: Bench) -> str:
    """Rows train tokens that were sampled there, under the prompt they were sampled from, and no others."""
    step = bench.need_step()
    if not step.rows:
        raise Doubt(f"the tiny step gave no row, so nothing was looked at ({rollout_stops(step)})")
    known = _calls(step)
    for row in step.rows:
        call = known.get((row.episode, row.turn, row.kind == RowKind.REFLECT))
        length = len(row.response_ids)
        if call is None or call.response_ids[:length] != row.response_ids:
            raise Fault(
                f"row {row.name} trains {length} tokens that were not sampled in that turn; a row's response_ids must "
                "be the turn's response_ids (or their first part)"
            )
        if isinstance(call, Turn) and call.hint is not None:
            continue  # trained under the prompt without its hint
        if row.prompt_ids != call.prompt_ids:
            raise Fault(
                f"row {row.name} is trained under a prompt of {len(row.prompt_ids)} tokens that is not the one it was "
                f"sampled from ({len(call.prompt_ids)} tokens); use the turn's prompt_ids"
            )
        if not np.allclose(row.old_logprobs, call.logprobs[:length], atol=1e-9):
            raise Fault(
                f"row {row.name}: old_logprobs are not those recorded with the turn; use its logprobs"
            )
    trained = sum(row.trained_tokens for row in step.rows)
    return f"{trained} trained tokens in {len(step.rows)} rows, all sampled where they are trained"


def _calls(step: TinyStep) -> dict[tuple[str, int, bool], Call]:
    calls: dict[tuple[str, int, bool], Call] = {}
    for episode in step.episodes:
        for turn in episode.new_turns:
            calls[episode.id, turn.index, False] = turn
        if episode.reflection is not None:
            calls[episode.id, len(episode.turns), True] = episode.reflection
    return calls


async def same_history(bench: Bench) -> str:
    """Prompts are what rendering gives, and earlier replies stand in them as they were sampled."""
    run, turns = bench.run, bench.need_turns()
    exact = run.renderer.replies == "sampled" and run.config.prompt.history == "chat"
    for episode, turn in turns:
        if turn.hint is not None or not turn.messages:
            continue
        if run.renderer.prompt_ids(turn.messages) != turn.prompt_ids:
            raise Fault(
                f"turn {turn.index} of episode {episode.id}: rendering its messages again gives other tokens than the "
                "policy read, so scores would be of another prompt; a chat template must not depend on anything but "
                "its messages (date, random values): set prompt.template_arguments, or prompt.template=plain"
            )
        for earlier in turn.messages if exact else ():
            if earlier.token_ids is not None and not _holds(turn.prompt_ids, earlier.token_ids):
                raise Fault(
                    f"turn {turn.index} of episode {episode.id}: an earlier reply of {len(earlier.token_ids)} tokens "
                    "is not in the prompt as it was sampled: its ids are stale (reasoning stripped, or text encoded "
                    "again); set prompt.earlier_replies=template, which starts a row for each turn"
                )
    anew = rows_anew([episode for group in bench.need_step().groups for episode in group.episodes])
    return (
        f"{len(turns)} prompts; {100 * anew:.0f} % of later turns begin a row of their own (metric rows_anew)"
    )


def _holds(prompt: Sequence[int], reply: Sequence[int]) -> bool:
    n, reply = len(reply), tuple(reply)
    return any(
        prompt[i] == reply[0] and tuple(prompt[i : i + n]) == reply for i in range(len(prompt) - n + 1)
    )


async def ends_trained(bench: Bench) -> str:
    """The token with which a reply ended counts in the loss."""
    run, step = bench.run, bench.need_step()
    pad = getattr(run.policy.tokenizer, "pad_token_id", None)
    ended = [row for row in step.rows if row.response_ids[-1] in run.policy.eos_ids]
    for row in ended:
        if row.mask is not None and not row.mask[-1]:
            why = "pad = EOS: a mask made from token ids" if row.response_ids[-1] == pad else "its mask"
            raise Fault(
                f"row {row.name}: its end-of-turn token (id {row.response_ids[-1]}) is left out of the loss by {why}, "
                "so the model never learns to stop; masks must come from lengths: leave row.mask None, or set its "
                "last entry"
            )
    calls = [turn for _, turn in step.turns]
    cut = sum(turn.truncated for turn in calls)
    if not step.rows:
        raise NotApplicable("the tiny step gave no row")
    if calls and cut == len(calls):
        raise Doubt(
            f"none of {len(calls)} replies ended by itself within rollout.max_response_tokens="
            f"{run.config.rollout.max_response_tokens}; raise it, or warm-start the model so that it learns to stop"
        )
    return f"{len(ended)} rows end with an end-of-turn token, and it is trained; {cut} of {len(calls)} replies were cut"


def trained(row: Row) -> np.ndarray:
    """Advantages of a row's trained tokens."""
    return row.advantages if row.mask is None else row.advantages[row.mask]
