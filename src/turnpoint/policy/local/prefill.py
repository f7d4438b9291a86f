"""Feeding prompts: right-padded batches of what rows have not cached, in pieces if they are long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from turnpoint.policy.local.cache import KVPool
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.slots import IntArray, Slots

SHARED_PREFIX = 16
"""A call waits for the prefill of another that starts alike if copying saves it at least this many tokens."""
MASK_ELEMENTS = 2**26
"""Largest attention mask; longer batches are fed in pieces."""


def feed(
    network: Network, pool: KVPool, slots: Slots, rows: IntArray, feeds: IntArray
) -> Iterator[tuple[int, Tensor]]:
    """Run the next ``feeds[i]`` tokens of each row after its cached ones, whose number is left to the caller.

    Yields, for each piece, the number of tokens before it and its final hidden states ``[rows, piece, width]``;
    past a row's last token they are those of the last token.
    """
    starts = slots.length[rows]
    longest, reach = int(feeds.max()), int((starts + feeds).max())
    piece = max(1, min(longest, MASK_ELEMENTS // (len(rows) * reach)))
    contiguous = bool((np.diff(rows) == 1).all())
    selected = slice(int(rows[0]), int(rows[-1]) + 1) if contiguous else on_device(network, rows)
    for begin in range(0, longest, piece):
        offsets = np.arange(begin, min(begin + piece, longest))
        # Padding repeats the row's last token: same key, same value, same place, so it needs no room.
        where = starts[:, None] + np.minimum(offsets, feeds[:, None] - 1)
        positions = on_device(network, where)
        ids = on_device(network, slots.tokens[rows[:, None], where])
        yield begin, network.hidden_with_pool(ids, positions, network.masks(positions, reach), pool, selected)


def on_device(network: Network, values: npt.NDArray[np.int64]) -> Tensor:
    """Integers where the network is."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(network.device)


def prefill_groups(feeds: Sequence[int], token_budget: int) -> list[list[int]]:
    """Calls to prefill together: padded size within the budget and little of it padding.

    Indices into ``feeds`` (numbers of new tokens), longest first.
    """
    groups: list[list[int]] = []
    real = 0
    for i in sorted(range(len(feeds)), key=lambda i: -feeds[i]):
        if groups:
            padded = feeds[groups[-1][0]] * (len(groups[-1]) + 1)
            if padded <= token_budget and padded <= 1.5 * (real + feeds[i]) + 128:
                groups[-1].append(i)
                real += feeds[i]
                continue
        groups.append([i])
        real = feeds[i]
    return groups
