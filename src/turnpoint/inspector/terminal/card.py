"""Turn cards: what was seen, said and done, tokens by signal, and the prompt."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from turnpoint.inspector.align import own_start
from turnpoint.inspector.cells import Cell, cell, scale_of
from turnpoint.inspector.terminal.draw import blend

Json = dict[str, Any]


def _clipped(pair: list[Any]) -> Text:
    text = Text(pair[0])
    if pair[1]:
        text.append(f"\n… {pair[1]:,} more characters cut for display", "italic dim")
    return text


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(title, "dim bold"), body, Text("")]


def turn_card(detail: Json, index: int, *, signal: int = 0, prompt: bool = False) -> RenderableType:
    """Everything about a turn; ``signal``: which token signal colours the response."""
    turn = detail["turns"][index]
    flags = {
        "invalid": "no usable action",
        "refused": "not accepted",
        "truncated": "cut at the token limit",
        "reused": "context only",
        "done": "last turn",
    }
    facts = [words for key, words in flags.items() if turn.get(key)]
    if turn.get("reward"):
        facts.append(f"reward {turn['reward']:+g}")
    if detail.get("distances"):
        facts.append(cell(detail, index, "distance", 1.0).words)
    if turn.get("ntokens"):
        facts.append(f"{turn['ntokens']} tokens")
    parts: list[RenderableType] = [
        Text().append(f"Turn {index + own_start(detail)}", "bold").append("  " + " · ".join(facts), "dim"),
        *_action_lines(detail, turn, index),
        Text(""),
        *_section("Observation", _clipped(turn["obs"])),
    ]
    if turn.get("hint"):
        parts += _section("Hint (seen while sampling only)", Text(turn["hint"], "yellow"))
    tokens = token_map(turn, signal)
    parts += _section("Response", _clipped(turn["response"])) if turn["response"][0] and not tokens else []
    if tokens:
        parts += tokens
    if turn.get("untrained"):
        parts.append(Text(f"Not trained: {turn['untrained']}.", "italic dim"))
    if prompt:
        parts += prompt_lines(detail, index)
    return Group(*parts)


def _action_lines(detail: Json, turn: Json, index: int) -> list[RenderableType]:
    lines = [Text().append("action  ", "dim").append(turn.get("action", "none could be parsed"), "bold")]
    if turn.get("executed"):
        lines.append(Text().append("given   ", "dim").append(turn["executed"]))
    if turn.get("gold"):
        lines.append(Text().append("gold    ", "dim").append(" · ".join(turn["gold"]), "green"))
    for pivot in detail.get("named", ()):
        if pivot["turn"] == index:
            better = pivot.get("resolved") or pivot.get("gold") or "no better action named"
            line = (
                Text()
                .append("◆ pivot ", "bold magenta")
                .append(f"named by {pivot['source']}: ", "dim")
                .append(better, "magenta")
            )
            lines.append(line.append(f"  {pivot['note']}" if pivot.get("note") else "", "italic"))
    return list(lines)


def token_map(turn: Json, signal: int) -> list[RenderableType]:
    """The response with each token on the colour of a signal; positive ones are underlined. Empty without signals."""
    if not turn.get("signals"):
        return []
    names = list(turn["signals"])
    name = names[signal % len(names)]
    values = _values(turn, name)
    scale = scale_of(values)
    text = Text()
    for token, value in zip(turn["tokens"], values, strict=True):
        sign = ((value or 0) > 0) - ((value or 0) < 0)
        style = blend(Cell(sign, min(1.0, abs(value or 0) / scale))) if sign else Style()
        text.append(token, style + Style(underline=sign > 0))
    others = ", ".join(names)
    title = (
        Text()
        .append(f"Response by {name}", "dim bold")
        .append(f"  full at ±{scale:.3g}, positive underlined; v: {others}", "dim")
    )
    terms = ", ".join(f"{term} on {count} tokens" for term, count in turn.get("terms", {}).items())
    return [title, text, *([Text(f"terms: {terms}", "dim")] if terms else []), Text("")]


def _values(turn: Json, name: str) -> list[float | None]:
    values = turn["signals"][name]
    return values if isinstance(values, list) else [values] * len(turn["tokens"])


def reflection_lines(reflection: Json, signal: int) -> list[RenderableType]:
    """What the policy said after a failed attempt."""
    named = f"turn {reflection['pivot']} named" if "pivot" in reflection else "no turn named"
    title = Text().append("↻ reflection after this attempt: ", "dim bold")
    parts: list[RenderableType] = [title.append(named if reflection.get("valid") else "could not be used")]
    if reflection.get("remark"):
        parts.append(Text().append("remark: ", "dim").append(reflection["remark"]))
    return [*parts, *(token_map(reflection, signal) or [_clipped(reflection["response"])])]


def messages_of(detail: Json, index: int) -> list[list[Any]]:
    """All messages of a turn's prompt; shared ones come from the turns before."""
    stored = detail["turns"][index].get("messages")
    if not stored:
        return []
    same: int = stored[0]
    fresh: list[list[Any]] = stored[1]
    return (messages_of(detail, index - 1)[:same] if same else []) + fresh


def prompt_lines(detail: Json, index: int) -> list[RenderableType]:
    """The prompt as messages, and how its tokens extend the turn before."""
    parts: list[RenderableType] = [Text("Prompt as the model saw it", "dim bold")]
    for role, content, cut in messages_of(detail, index):
        parts += [Text(role, "bold cyan"), _clipped([content, cut])]
    if stored := detail["turns"][index].get("prompt"):
        total, same, text, _ = stored
        parts.append(Text(f"{total} tokens, {same} of them unchanged since the turn before", "italic dim"))
        if text:
            parts += [Text("new tokens, decoded one by one", "dim bold"), Text(text)]
    return parts
