"""Validation errors as sentences: where, what was set, what to do; secrets are never repeated."""

from __future__ import annotations

import re

from pydantic import ValidationError

_LOGIN = re.compile(r"([A-Za-z][\w+.-]*://)\S*@|[^\s@]+:\S*@")
"""A user name and password in an address, with or without a scheme; both may hold any sign but a blank."""
_QUERY = re.compile(
    r"([?&][^=&\s]*(?:key|token|passw|secret|credential|auth|signature)[^=&\s]*=)[^&#\s'\"]+", re.I
)
_SECRET_WORDS = {
    "key",
    "apikey",
    "password",
    "passwd",
    "secret",
    "credential",
    "credentials",
    "authorization",
}


def explain(error: ValidationError) -> str:
    """One line for each fault, led by the dotted path of the setting."""
    lines = []
    for item in error.errors(include_url=False):
        path = ".".join(str(part) for part in item["loc"])
        message = redact(item["msg"].removeprefix("Value error, "))
        given = item.get("input")
        shown = ""
        if isinstance(given, str | int | float | bool):
            shown = " (what is set is not shown)" if names_secret(path) else f" (set to {_shown(given)})"
        lines.append(f"{path}: {message}{shown}" if path else f"{message}{shown}")
    return "\n".join(lines)


def _shown(value: str | float | bool) -> str:
    return repr(redact(value)) if isinstance(value, str) else repr(value)


def redact(text: str) -> str:
    """``text`` without the user names, passwords and keys of addresses in it."""
    return _QUERY.sub(r"\1***", _LOGIN.sub(lambda found: f"{found.group(1) or ''}***@", text))


def names_secret(path: str) -> bool:
    """Whether a dotted path names a key, token or password; budgets and counts of tokens are none."""
    for name in path.lower().split("."):
        words = re.split(r"[_-]", name)
        if _SECRET_WORDS & set(words) or words[-1] == "token":
            return True
    return False
