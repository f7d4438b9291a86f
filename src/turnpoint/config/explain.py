"""Validation errors as sentences: where, what was set, what to do."""

from __future__ import annotations

from pydantic import ValidationError


def explain(error: ValidationError) -> str:
    """One line for each fault, led by the dotted path of the setting."""
    lines = []
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        given = item.get("input")
        shown = f" (set to {given!r})" if isinstance(given, str | int | float | bool) else ""
        lines.append(f"{path}: {message}{shown}" if path else f"{message}{shown}")
    return "\n".join(lines)
