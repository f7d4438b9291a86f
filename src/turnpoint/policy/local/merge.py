"""Rows whose prompts extend each other, and micro-batches under a token budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Ids = Sequence[int]
Item = tuple[Ids, Ids]
"""Prompt and response ids of one model call."""


def chains(items: Sequence[Item]) -> list[list[int]]:
    """Items grouped so that each item's prompt starts with the whole of the item before it in its chain.

    Every item is in exactly one chain. The result depends on the items' tokens only: neither the composition
    nor (ties between identical items apart) the order of the chains changes with the order of the input.
    """
    whole = [_key(prompt) + _key(response) for prompt, response in items]
    prompt_bytes = [_WIDTH * len(prompt) for prompt, _ in items]
    # In lexicographic order everything that extends a sequence follows it directly, shortest prompt first
    # among equals, so a stack of the open ancestors finds each item's nearest free predecessor.
    order = sorted(range(len(items)), key=lambda i: (whole[i], prompt_bytes[i]))
    open_items: list[int] = []
    chain_of: dict[int, list[int]] = {}
    result: list[list[int]] = []
    for i in order:
        while open_items and not whole[i].startswith(whole[open_items[-1]]):
            open_items.pop()
        # Episodes of a group often begin alike: of equal ancestors, one that nobody has continued yet is taken.
        before = next(
            (j for j in reversed(open_items) if len(whole[j]) <= prompt_bytes[i] and chain_of[j][-1] == j),
            None,
        )
        if before is not None:
            chain = chain_of[before]
            chain.append(i)
        else:
            chain = [i]
            result.append(chain)
        chain_of[i] = chain
        open_items.append(i)
    return result


_WIDTH = 4


def _key(ids: Ids) -> bytes:
    """Fixed-width big-endian bytes: comparing them compares the ids."""
    return np.asarray(ids, dtype=">u4").tobytes()


def mini_batches(
    groups: Sequence[list[int]], size: int | None, *, seed: int, update: int
) -> list[list[list[int]]]:
    """Whole chains in mini-batches of at least ``size`` rows (the last may be smaller); None = all in one.

    Their order is drawn anew in each ``update`` from the stream of ``seed``, whatever backend trains.
    """
    if size is None:
        return [list(groups)] if groups else []
    order = np.random.default_rng([seed, update]).permutation(len(groups))
    result: list[list[list[int]]] = []
    count = size
    for i in order:
        if count >= size:
            result.append([])
            count = 0
        result[-1].append(groups[i])
        count += len(groups[i])
    return result


def micro_batches(lengths: Sequence[int], token_budget: int) -> list[list[int]]:
    """Indices in batches whose padded size stays within the budget, longest first.

    A sequence longer than the budget is a batch of its own.
    """
    result: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if result and lengths[result[-1][0]] * (len(result[-1]) + 1) <= token_budget:
            result[-1].append(i)
        else:
            result.append([i])
    return result
