"""Text of models and environments made safe to show: bounded, and without characters that hide or reorder it.

Escaping for HTML is not done here: templates escape, and page scripts set ``textContent`` only.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, bidi marks and overrides, zero-width characters, tags and lone surrogates."""


def visible(text: str) -> str:
    """``text`` with every hidden or reordering character written as ``⟨U+202E⟩``; tabs and line ends stay.

    A carriage return before a line end is dropped; any other one becomes a line end.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def clip(text: str, limit: int) -> tuple[str, int]:
    """The visible form of the first ``limit`` characters, and how many characters were cut."""
    return visible(text[:limit]), max(0, len(text) - limit)


def clip_note(text: str, limit: int) -> str:
    """Like ``clip``, in one string that says what was cut."""
    shown, cut = clip(text, limit)
    return f"{shown} … ({cut:,} characters cut)" if cut else shown


def script_json(value: Any) -> str:
    """JSON that can stand inside a ``<script>`` element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
