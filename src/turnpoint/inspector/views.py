"""Episodes as plain JSON for the pages: bounded, with hidden characters made visible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turnpoint.inspector.text import clip, clip_note
from turnpoint.inspector.tokens import TokenTexts, turn_tokens
from turnpoint.pivots import oracle_pivots
from turnpoint.records import Episode, Pivot, Turn

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


def episode_view(episode: Episode, limits: Limits, texts: TokenTexts | None = None) -> Json:
    """Everything a page shows of an episode."""
    shown = episode.turns[: limits.turns]
    fork = episode.forked_from
    return _lean(
        {
            **summary_view(episode, limits),
            "fork": [fork.episode, fork.turn] if fork else None,
            "remarks": [clip_note(remark, limits.line) for remark in episode.attempt.remarks],
            "instruction": clip_note(episode.task.instruction, limits.line),
            "seed": episode.task.seed,
            "lesson": clip_note(episode.lesson or "", limits.text),
            "summary": clip_note(episode.summary, limits.text),
            "error": clip_note(episode.error, limits.text),
            "seconds": _number(episode.seconds),
            "named": [_pivot_view(pivot, limits) for pivot in episode.pivots],
            "cutTurns": len(episode.turns) - len(shown),
            "turns": [_turn_view(turn, limits, texts) for turn in shown],
            "final": _clipped(episode.final_observation.text, limits.text)
            if episode.final_observation
            else None,
        }
    )


def summary_view(episode: Episode, limits: Limits) -> Json:
    """What a list shows of an episode: a number for each turn to colour by, and the marks."""
    turns = episode.turns[: limits.turns]
    known = episode.distances_known
    return _lean(
        {
            "id": clip_note(episode.id, limits.line),
            "task": clip_note(episode.task.id, limits.line),
            "type": clip_note(episode.task.type, limits.line),
            "kind": episode.kind.value,
            "stop": episode.stop.value if episode.stop else None,
            "success": episode.success,
            "step": episode.step,
            "attempt": episode.attempt.index,
            "reward": _number(episode.total_reward),
            "n": len(episode.turns),
            "pivots": sorted({p.turn for p in episode.pivots if 0 <= p.turn < len(turns)}),
            "oracle": [t for t in oracle_pivots(episode) if t < len(turns)] if known else [],
            "invalid": [turn.index for turn in turns if not turn.valid],
            "reused": sum(turn.reused for turn in turns),
            "distances": [*(t.distance for t in turns), episode.final_distance] if known else [],
            "advantages": _advantages(turns),
        }
    )


def _turn_view(turn: Turn, limits: Limits, texts: TokenTexts | None) -> Json:
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
            "ntokens": len(turn.response_ids),
            **_token_view(turn, limits, texts),
        }
    )


def _token_view(turn: Turn, limits: Limits, texts: TokenTexts | None) -> Json:
    """Token texts and every per-token signal of the right length; nothing without signals."""
    ids = turn.response_ids
    signals = {clip_note(n, 60): v for n, v in turn.scores.items() if len(v) == len(ids) and len(ids)}
    if not signals:
        return {}
    if turn.logprobs:
        signals["logprob"] = turn.logprobs
    return {
        "tokens": [token[:200] for token in turn_tokens(turn, texts)[: limits.tokens]],
        "signals": {name: _series(values[: limits.tokens]) for name, values in signals.items()},
    }


def _series(values: Sequence[float]) -> list[float | None] | float | None:
    """Numbers of a signal; a single number where all are the same."""
    numbers = [_number(value) for value in values]
    return numbers[0] if numbers and all(number == numbers[0] for number in numbers) else numbers


def _advantages(turns: Sequence[Turn]) -> list[float | None]:
    """Mean advantage of each turn; empty if no turn has any."""
    means = [_mean_advantage(turn) for turn in turns]
    return means if any(mean is not None for mean in means) else []


def _mean_advantage(turn: Turn) -> float | None:
    values = turn.scores.get("advantage", ())
    return _number(sum(values) / len(values)) if values else None


def _pivot_view(pivot: Pivot, limits: Limits) -> Json:
    return _lean(
        {
            "turn": pivot.turn,
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


def _number(value: float | None) -> float | int | None:
    """Five significant digits are enough to look at; None for what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _lean(data: Json) -> Json:
    """Without what says nothing (None, false, empty); a step or reward of 0 is left out too."""
    return {k: v for k, v in data.items() if (v is False and k == "success") or not _empty(v)}


def _empty(value: Any) -> bool:
    return value is None or value is False or value == 0 or (isinstance(value, Iterable) and not value)
