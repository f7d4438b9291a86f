"""The Textual app: list on the left, the open episode on the right, everything by key."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Input, Static

from turnpoint.inspector.catalogue import Catalogue
from turnpoint.inspector.cells import MODES, has_mode, marks, mode_for
from turnpoint.inspector.query import HELP, QueryError, select
from turnpoint.inspector.terminal import draw
from turnpoint.inspector.terminal.card import reflection_lines, turn_card
from turnpoint.inspector.terminal.groups import group_view, side_by_side
from turnpoint.inspector.terminal.listing import EpisodeList
from turnpoint.inspector.text import clip_note

Json = dict[str, Any]


class InspectorApp(App[None]):
    """Looks at a catalogue of episodes."""

    CSS = """
    #side { width: 40%; max-width: 70; border-right: solid $primary; }
    #query { border: none; height: 1; margin: 0 1; }
    #count { height: auto; color: $text-muted; padding: 0 1; }
    EpisodeList { height: 1fr; }
    #pane { width: 1fr; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,down", "episode(1)", "next"),
        ("k,up", "episode(-1)", "previous"),
        ("l,right", "turn(1)", "turn →"),
        ("h,left", "turn(-1)", "turn ←"),
        ("n", "marked(1)", "next mark"),
        ("p", "marked(-1)", "previous mark"),
        ("1", "tab('turns')", "turn"),
        ("2", "tab('group')", "group"),
        ("3", "tab('sides')", "branches"),
        ("c", "colour", "colour"),
        ("v", "signal", "tokens by"),
        ("m", "prompt", "prompt"),
        ("slash", "search", "filter"),
        ("escape", "leave", "list"),
        ("d", "theme", "dark/light"),
        ("q", "quit", "quit"),
        ("pagedown,space", "page(20)", ""),
        ("pageup", "page(-20)", ""),
    ]

    def __init__(self, catalogue: Catalogue) -> None:
        super().__init__()
        self.catalogue = catalogue
        self.mode = next(m for m in MODES if any(has_mode(e, m) for e in catalogue.entries) or m == "plain")
        self.tab = "turns"
        self.turn = 0
        self.signal = 0
        self.with_prompt = False
        self.entry: Json | None = None

    def compose(self) -> ComposeResult:
        """List and pane."""
        with Horizontal():
            with Vertical(id="side"):
                yield Input(placeholder="filter ( / )", id="query")
                yield Static(id="count")
                yield EpisodeList(self._mini, id="list")
            with VerticalScroll(id="pane"):
                yield Static(id="content", expand=True)
        yield Footer()

    def on_mount(self) -> None:
        """Show everything."""
        self.title = self.catalogue.plan.title
        self._filter("")
        self.query_one(EpisodeList).focus()

    def _mini(self, entry: Json, width: int) -> Text:
        return draw.mini_strip(entry, mode_for(entry, self.mode), self.catalogue.fork_turns(entry), width)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        """Back to the list."""
        self.query_one(EpisodeList).focus()

    def _filter(self, text: str) -> None:
        count = self.query_one("#count", Static)
        try:
            kept = select(self.catalogue.entries, text)
        except QueryError as error:
            count.update(Text(str(error), "red"))
            return
        judged = [e for e in kept if e.get("success") is not None]
        solved = sum(bool(e["success"]) for e in judged)
        line = f"{len(kept):,} episodes" + (
            f", {solved / len(judged):.0%} of {len(judged):,} solved" if judged else ""
        )
        notes = [clip_note(note, 500) for note in (*self.catalogue.plan.notes, *self.catalogue.problems[:3])]
        count.update(Text("\n".join([line, *notes])))
        if not kept:
            self.entry = None
            self.query_one("#content", Static).update(Text(f"No episode passes the filter. Terms: {HELP}"))
        self.query_one(EpisodeList).show(kept)

    def on_episode_list_chosen(self, message: EpisodeList.Chosen) -> None:
        """Open the entry under the cursor."""
        if message.entry is not self.entry:
            self.entry, self.turn = message.entry, 0
        self._draw(top=True)

    def _draw(self, *, top: bool = False) -> None:
        if self.entry is None:
            return
        self.query_one("#content", Static).update(self._content(self.entry))
        if top:
            self.query_one("#pane", VerticalScroll).scroll_to(0, 0, animate=False)

    def _content(self, entry: Json) -> RenderableType:
        try:
            detail = self.catalogue.detail(entry)
            body = {"group": self._group, "sides": self._sides}.get(self.tab, self._card)(entry, detail)
        except (OSError, ValueError) as error:
            return Text(f"This episode cannot be read any more: {error}", "red")
        forks = self.catalogue.fork_turns(entry)
        strip = draw.strip(detail, mode_for(entry, self.mode), forks, self._current(detail), self._width())
        colour = Text(f"coloured by {self.mode}", "dim")
        parts = [draw.head(detail), colour, strip, draw.distance_line(detail), Text(""), body]
        for name in ("error", "lesson", "summary"):
            if detail.get(name):
                parts += [Text(""), Text(name, "dim bold"), Text(detail[name])]
        if detail.get("reflection"):
            parts += [Text(""), *reflection_lines(detail["reflection"], self.signal)]
        return Group(*(part for part in parts if part is not None))

    def _width(self) -> int:
        return max(20, self.query_one("#pane", VerticalScroll).content_size.width - 2)

    def on_resize(self) -> None:
        """Lay the strip out anew."""
        self.call_after_refresh(self._draw)

    def _current(self, detail: Json) -> int:
        return min(self.turn, max(0, len(detail.get("turns", [])) - 1))

    def _card(self, entry: Json, detail: Json) -> RenderableType:
        if not detail.get("turns"):
            return Text("This episode has no turn.", "dim")
        return turn_card(detail, self._current(detail), signal=self.signal, prompt=self.with_prompt)

    def _group(self, entry: Json, detail: Json) -> RenderableType:
        entries = self.catalogue.group(entry)[:80]
        details = [self.catalogue.detail(e) for e in entries]
        return group_view(entries, details, entry, mode_for(entry, self.mode))

    def _sides(self, entry: Json, detail: Json) -> RenderableType:
        parent = self.catalogue.parent(entry)
        branches = [entry] if parent is not None else self.catalogue.children(entry)
        if not branches:
            return Text("Nothing branches off from this episode.", "dim")
        original = self.catalogue.detail(parent or entry)
        return Group(*(side_by_side(original, self.catalogue.detail(b)) for b in branches))

    def action_episode(self, by: int) -> None:
        """Next or previous episode."""
        self.query_one(EpisodeList).move(by)

    def action_turn(self, by: int) -> None:
        """Next or previous turn."""
        if self.entry is not None:
            self.turn = max(0, min(self.entry.get("n", 1) - 1, self.turn + by))
            self.tab = "turns"
            self._draw()

    def action_marked(self, by: int) -> None:
        """Next or previous turn with a mark."""
        if self.entry is None:
            return
        forks = self.catalogue.fork_turns(self.entry)
        marked = [t for t in range(self.entry.get("n", 0)) if marks(self.entry, t, forks)]
        ahead = [t for t in marked if (t - self.turn) * by > 0]
        if ahead:
            self.action_turn((min(ahead) if by > 0 else max(ahead)) - self.turn)

    def action_tab(self, name: str) -> None:
        """Turn card, group or branches."""
        self.tab = name
        self._draw(top=True)

    def action_colour(self) -> None:
        """Next colouring that any episode has numbers for."""
        modes = [m for m in MODES if any(has_mode(e, m) for e in self.catalogue.entries)]
        self.mode = modes[(modes.index(self.mode) + 1) % len(modes)]
        self.query_one(EpisodeList).refresh()
        self._draw()

    def action_signal(self) -> None:
        """Next token signal."""
        self.signal += 1
        self._draw()

    def action_prompt(self) -> None:
        """Show or hide the prompt."""
        self.with_prompt = not self.with_prompt
        self._draw()

    def action_search(self) -> None:
        """Go to the filter line."""
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Back to the list."""
        self.query_one(EpisodeList).focus()

    def action_theme(self) -> None:
        """Dark or light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_page(self, by: int) -> None:
        """Scroll the open episode."""
        self.query_one("#pane", VerticalScroll).scroll_relative(y=by, animate=False)
