"""The list of episodes: draws only the lines in view, so that ten thousand of them scroll like ten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from turnpoint.inspector.cells import outcome

Json = dict[str, Any]
_ROWS = 2
"""Lines of an entry: its task and its strip."""


class EpisodeList(ScrollView, can_focus=True):
    """A list with a cursor; moving it posts ``Chosen``."""

    class Chosen(Message):
        """The cursor is on another entry."""

        def __init__(self, entry: Json) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, strip_of: Callable[[Json, int], Text], **options: Any) -> None:
        """``strip_of(entry, width)`` draws the second line of an entry."""
        super().__init__(**options)
        self._strip_of = strip_of
        self._pen = Console(color_system="truecolor", width=200)
        self.entries: Sequence[Json] = ()
        self.cursor = 0

    def show(self, entries: Sequence[Json]) -> None:
        """Replace the entries; the cursor goes to the first."""
        self.entries, self.cursor = entries, 0
        self.virtual_size = Size(self.size.width or 1, _ROWS * len(entries))
        self.scroll_to(0, 0, animate=False)
        self.refresh()
        self._post()

    def move(self, by: int) -> None:
        """Move the cursor and keep it in view."""
        if not self.entries:
            return
        self.cursor = max(0, min(len(self.entries) - 1, self.cursor + by))
        self.scroll_to_region(Region(0, _ROWS * self.cursor, 1, _ROWS), animate=False, force=True)
        self.refresh()
        self._post()

    def _post(self) -> None:
        if self.entries:
            self.post_message(self.Chosen(self.entries[self.cursor]))

    def on_click(self, event: Any) -> None:
        """Choose the entry under the pointer."""
        self.move((event.y + self.scroll_offset.y) // _ROWS - self.cursor)

    def render_line(self, y: int) -> Strip:
        """One terminal line of the view."""
        line = y + self.scroll_offset.y
        at, part = divmod(line, _ROWS)
        width = self.size.width
        if at >= len(self.entries):
            return Strip.blank(width, self.rich_style)
        text = self._first_line(self.entries[at]) if part == 0 else self._second_line(self.entries[at], width)
        segments = list(text.render(self._pen, end=""))
        strip = Strip(segments).adjust_cell_length(width, self.rich_style).apply_style(self.rich_style)
        return strip.apply_style(Style(reverse=True)) if at == self.cursor and part == 0 else strip

    def _first_line(self, entry: Json) -> Text:
        glyph, _ = outcome(entry)
        place = "" if entry["o"] == "file" else f"{entry['o']} {entry.get('step', 0)}  "
        return Text(f" {glyph} ", no_wrap=True).append(place, "dim").append(entry["title"])

    def _second_line(self, entry: Json, width: int) -> Text:
        return Text("   ").append_text(self._strip_of(entry, max(8, width - 4)))
