from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnpoint.inspector.prompts import prompt_view, shared_prefix
from turnpoint.inspector.tokens import TokenTexts
from turnpoint.records import Message, Observation, Turn

IDS = st.lists(st.integers(0, 2), max_size=30).map(tuple)


@given(IDS, IDS)
def test_shared_prefix_is_the_longest(new: tuple[int, ...], old: tuple[int, ...]) -> None:
    same = shared_prefix(new, old)
    assert new[:same] == old[:same]
    if same < min(len(new), len(old)):
        assert new[same] != old[same]
    else:
        assert same == min(len(new), len(old))


def test_only_what_is_new_is_kept() -> None:
    texts = TokenTexts({0: "a", 1: "b", 2: "c", 3: "d"})
    first = Turn(0, Observation("o"), (Message("user", "x"),), prompt_ids=(0, 1), response_ids=(2,))
    second = Turn(
        1, Observation("o"), (Message("user", "x"), Message("user", "y" * 9)), prompt_ids=(0, 1, 2, 3)
    )
    assert prompt_view(first, None, texts, 5) == {
        "messages": [0, [["user", "x", 0]]],
        "prompt": [2, 0, "ab", 0],
    }
    assert prompt_view(second, first, texts, 5) == {
        "messages": [1, [["user", "yyyyy", 4]]],
        "prompt": [4, 3, "d", 0],
    }
    assert prompt_view(second, first, None, 5)["prompt"] == [4, 3, "", 0]
