"""Episodes as plain JSON for the pages: bounded, with hidden characters made visible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turnpoint.inspector.prompts import prompt_view
from turnpoint.inspector.signals import mean_advantage, teacher_gap, terms_of, token_signals, why_untrained
from turnpoint.inspector.text import clip, clip_note
from turnpoint.inspector.tokens import TokenTexts, turn_tokens
from turnpoint.pivots import oracle_pivots
from turnpoint.records import Episode, Pivot, Reflection, Turn

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of an episode is shown; what is cut is said."""

    text: int = 6_000
    """Characters of an observation or a response."""
    line: int = 400
    """Characters of an action, hint, lesson, remark."""
    tokens: int = 600
    """Tokens of a response in the heat-map."""
    turns: int = 400
    """Turns of an episode."""
    actions: int = 12
    """Gold actions of a turn."""
    prompts: bool = False
    """Whether the prompt of every turn is shown."""


def episode_view(episode: Episode, limits: Limits, texts: TokenTexts | None = None) -> Json:
    """Everything a page shows of an episode."""
    shown = episode.turns[: limits.turns]
    credited = any("advantage" in turn.scores for turn in shown)
    before = [None, *shown]
    turns = [
        _turn_view(turn, limits, texts, credited=credited)
        | (prompt_view(turn, last, texts, limits.text) if limits.prompts else {})
        for turn, last in zip(shown, before, strict=False)
    ]
    view = _lean(
        {
            **summary_view(episode, limits),
            "remarks": [clip_note(remark, limits.line) for remark in episode.attempt.remarks],
            "instruction": clip_note(episode.task.instruction, limits.line),
            "seed": episode.task.seed,
            "lesson": clip_note(episode.lesson or "", limits.text),
            "summary": clip_note(episode.summary, limits.text),
            "error": clip_note(episode.error, limits.text),
            "seconds": _number(episode.seconds),
            "named": [_pivot_view(pivot, limits) for pivot in episode.pivots],
            "cutTurns": len(episode.turns) - len(shown),
            "reflection": _reflection_view(episode.reflection, limits, texts) if episode.reflection else None,
            "final": _clipped(episode.final_observation.text, limits.text)
            if episode.final_observation
            else None,
        }
    )
    return view | {"turns": turns}


def summary_view(episode: Episode, limits: Limits) -> Json:
    """What a list shows of an episode: a number for each turn to colour by, and the marks."""
    turns = episode.turns[: limits.turns]
    known, fork = episode.distances_known, episode.forked_from
    return _lean(
        {
            "id": clip_note(episode.id, limits.line),
            "task": clip_note(episode.task.id, limits.line),
            "type": clip_note(episode.task.type, limits.line),
            "kind": episode.kind.value,
            "fork": [clip_note(fork.episode, limits.line), fork.turn] if fork else None,
            "stop": episode.stop.value if episode.stop else None,
            "success": episode.success,
            "step": episode.step,
            "attempt": episode.attempt.index,
            "chain": clip_note(episode.attempt.chain, limits.line),
            "reward": _number(episode.total_reward),
            "n": len(episode.turns),
            "pivots": [turn for turn in named_turns(episode) if 0 <= turn < len(turns)],
            "oracle": [t for t in oracle_pivots(episode) if t < len(turns)] if known else [],
            "invalid": [place for place, turn in enumerate(turns) if not turn.valid],
            "reused": sum(turn.reused for turn in turns),
            "distances": [*(t.distance for t in turns), episode.final_distance] if known else [],
            "advantages": _per_turn(turns, mean_advantage),
            "gaps": _per_turn(turns, teacher_gap),
        }
    )


def named_turns(episode: Episode) -> list[int]:
    """Turns that a teacher or a reflection named as pivotal."""
    named = {pivot.turn for pivot in episode.pivots}
    if episode.reflection is not None and episode.reflection.pivot is not None:
        named.add(episode.reflection.pivot)
    return sorted(named)


def _reflection_view(reflection: Reflection, limits: Limits, texts: TokenTexts | None) -> Json:
    view = {
        "response": _clipped(reflection.response, limits.text),
        "remark": clip_note(reflection.remark, limits.text),
        "valid": reflection.valid,
        "truncated": reflection.truncated,
        "ntokens": len(reflection.response_ids),
        **_token_view(reflection, limits, texts),
    }
    return _lean(view) | ({} if reflection.pivot is None else {"pivot": reflection.pivot})


def _turn_view(turn: Turn, limits: Limits, texts: TokenTexts | None, *, credited: bool) -> Json:
    return _lean(
        {
            "obs": _clipped(turn.observation.text, limits.text),
            "admissible": None if turn.observation.admissible is None else len(turn.observation.admissible),
            "response": _clipped(turn.response, limits.text),
            "action": None if turn.action is None else clip_note(turn.action, limits.line),
            "executed": clip_note(turn.executed, limits.line)
            if turn.executed not in ("", turn.action)
            else None,
            "gold": [clip_note(action, limits.line) for action in turn.gold_actions[: limits.actions]],
            "moreGold": max(0, len(turn.gold_actions) - limits.actions),
            "hint": clip_note(turn.hint or "", limits.text),
            "reward": _number(turn.reward),
            "invalid": not turn.valid,
            "refused": not turn.effective,
            "truncated": turn.truncated,
            "reused": turn.reused,
            "done": turn.done,
            "untrained": why_untrained(turn, credited=credited),
            "ntokens": len(turn.response_ids),
            **_token_view(turn, limits, texts),
        }
    )


def _token_view(turn: Turn | Reflection, limits: Limits, texts: TokenTexts | None) -> Json:
    """Token texts and every per-token signal; nothing without signals."""
    signals = token_signals(turn)
    if not signals:
        return {}
    return {
        "tokens": [token[:200] for token in turn_tokens(turn, texts)[: limits.tokens]],
        "signals": {clip_note(name, 60): _series(v[: limits.tokens]) for name, v in signals.items()},
        "terms": {clip_note(name, 60): count for name, count in terms_of(turn).items()},
    }


def _series(values: Sequence[float | None]) -> list[float | None] | float | None:
    """Numbers of a signal to four digits; a single number where all are the same."""
    numbers = [_number(value, 4) for value in values]
    return numbers[0] if numbers and numbers.count(numbers[0]) == len(numbers) else numbers


def _per_turn(turns: Sequence[Turn], value: Callable[[Turn], float | None]) -> list[float | None]:
    """``value`` of each turn; empty if no turn has one."""
    values = [_number(value(turn), 3) for turn in turns]
    return values if any(found is not None for found in values) else []


def _pivot_view(pivot: Pivot, limits: Limits) -> Json:
    return {"turn": pivot.turn} | _lean(
        {
            "source": clip_note(pivot.source, limits.line),
            "gold": clip_note(pivot.gold_action or "", limits.line),
            "resolved": clip_note(pivot.resolved or "", limits.line),
            "score": _number(pivot.score),
            "note": clip_note(pivot.note, limits.text),
        }
    )


def _clipped(text: str, limit: int) -> list[Any]:
    """``[text, characters cut]``."""
    return list(clip(text, limit))


def _number(value: float | None, digits: int = 5) -> float | int | None:
    """A few significant digits are enough to look at; None for what is not finite."""
    if value is None or value - value != 0:  # not a number, or infinite
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _lean(data: Json) -> Json:
    """Without what says nothing (None, false, empty); a step or reward of 0 is left out too."""
    return {k: v for k, v in data.items() if (v is False and k == "success") or not _empty(v)}


def _empty(value: Any) -> bool:
    return value is None or value is False or value == 0 or (isinstance(value, Iterable) and not value)
