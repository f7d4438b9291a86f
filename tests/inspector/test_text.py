from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from turnpoint.inspector.text import clip, clip_note, script_json, visible

ANY_TEXT = st.text(st.characters(), max_size=60)


def test_hidden_and_reordering_characters_are_named() -> None:
    assert visible("a\u202eb\u200b\x00c") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+0000⟩c"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert visible("tab\tand\r\nlines\rstay\n") == "tab\tand\nlines\nstay\n"
    assert visible("日本語 émoji 🎈 עברית") == "日本語 émoji 🎈 עברית"


@given(ANY_TEXT)
def test_visible_text_can_be_written_and_is_stable(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert visible(shown) == shown


def test_clip_counts_what_it_cuts() -> None:
    assert clip("x" * 1_000_000, 10) == ("x" * 10, 999_990)
    assert clip_note("abc", 3) == "abc"
    assert clip_note("x" * 2_003, 3) == "xxx … (2,000 characters cut)"


@given(
    st.recursive(
        ANY_TEXT | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)
    )
)
def test_json_in_a_script_element_cannot_leave_it(value: object) -> None:
    text = script_json(value)
    assert not set("<>&") & set(text)
    assert json.loads(text) == value
