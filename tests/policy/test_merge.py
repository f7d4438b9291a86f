"""Merging of rows into sequences, and micro-batches."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from turnpoint.policy.local.forest import sequence_trees
from turnpoint.policy.local.merge import chains, micro_batches

ids = st.lists(st.integers(0, 2), min_size=1, max_size=4)
histories = st.lists(st.tuples(ids, ids), min_size=1, max_size=6)


def extend(steps: list[tuple[list[int], list[int]]]) -> list[tuple[list[int], list[int]]]:
    """Items of an episode whose prompts hold the full history."""
    history: list[int] = []
    items = []
    for observation, response in steps:
        history = history + observation
        items.append((history, response))
        history = history + response
    return items


@given(st.lists(histories, min_size=1, max_size=4), st.randoms())
def test_chains_cover_all_items_once_and_extend(episodes: list, shuffler: random.Random) -> None:
    items = [item for steps in episodes for item in extend(steps)]
    groups = chains(items)
    assert sorted(i for group in groups for i in group) == list(range(len(items)))
    for group in groups:
        for before, after in itertools.pairwise(group):
            whole = items[before][0] + items[before][1]
            assert items[after][0][: len(whole)] == whole
    for tree, group in zip(sequence_trees(items, groups), groups, strict=True):
        assert tree.causal
        assert [spot.item for spot in tree.spots] == group
        whole = [*tree.ids, items[group[-1]][1][-1]]
        for spot in tree.spots:
            prompt, response = items[spot.item]
            assert whole[: len(prompt) + len(response)] == prompt + response
            assert spot.before.tolist() == list(range(len(prompt) - 1, len(prompt) + len(response) - 1))
    # A lone episode is one sequence, and the grouping does not depend on the input order.
    assert len(chains(extend(episodes[0]))) == 1
    order = list(range(len(items)))
    shuffler.shuffle(order)
    shuffled = [items[i] for i in order]
    content = [[items[i] for i in group] for group in groups]
    assert [[shuffled[i] for i in group] for group in chains(shuffled)] == content


def test_a_fork_starts_its_own_sequence() -> None:
    trunk = ([1, 2], [3])
    left, right = ([1, 2, 3, 4], [5]), ([1, 2, 3, 6], [7])
    groups = chains([right, trunk, left])
    assert sorted(map(len, groups)) == [1, 2]
    # A response that covers the next prompt only in part is no predecessor.
    assert len(chains([([1], [2, 3]), ([1, 2], [3, 4])])) == 2


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))
def test_micro_batches_cover_all_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = micro_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
