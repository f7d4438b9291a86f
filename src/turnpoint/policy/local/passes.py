"""Forward passes over trees: batches, masks, and the hidden states that predict the wanted tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from turnpoint.policy.local.cache import CachedPrefixes, KVPool
from turnpoint.policy.local.forest import Tree
from turnpoint.policy.local.merge import micro_batches
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.prefill import on_device

MASK_ELEMENTS = 2**24
"""Largest attention mask of a pass over trees."""


def tree_batches(trees: Sequence[Tree], token_budget: int) -> list[list[Tree]]:
    """Trees to compute together, padded sizes within the budget; those that need masks apart from the others."""
    causal = [tree for tree in trees if tree.causal]
    result = [[causal[i] for i in batch] for batch in micro_batches([len(t) for t in causal], token_budget)]
    reach = 0
    batches: list[list[Tree]] = []
    for tree in sorted((tree for tree in trees if not tree.causal), key=lambda tree: -len(tree)):
        reach = max(reach, tree.cached)
        if batches:
            longest, lines = len(batches[-1][0]), len(batches[-1]) + 1
            tokens = longest * lines
            if tokens <= token_budget and tokens * (reach + longest) <= MASK_ELEMENTS:
                batches[-1].append(tree)
                continue
        batches.append([tree])
        reach = tree.cached
    return result + batches


def tree_states(network: Network, batch: Sequence[Tree], pool: KVPool | None = None) -> Tensor:
    """Final hidden states ``[n, width]`` that predict the tokens of the trees' spots, one spot after another.

    ``pool`` holds the rows that trees name, if any do. Differentiable in the weights unless gradients are off.
    """
    longest = max(len(tree) for tree in batch)
    ids = np.zeros((len(batch), longest), dtype=np.int64)
    for line, tree in enumerate(batch):
        ids[line, : len(tree)] = tree.ids
    if all(tree.causal for tree in batch):
        hidden = network.hidden(on_device(network, ids))
    else:
        hidden = _masked_hidden(network, batch, ids, pool)
    where = [line * longest + spot.before for line, tree in enumerate(batch) for spot in tree.spots]
    return hidden.flatten(0, 1).index_select(0, on_device(network, np.concatenate(where)))


def _masked_hidden(network: Network, batch: Sequence[Tree], ids: np.ndarray, pool: KVPool | None) -> Tensor:
    lines, longest = ids.shape
    reach = max(tree.cached for tree in batch)
    positions = np.zeros_like(ids)
    visible = np.zeros((lines, 1, longest, reach + longest), dtype=np.bool_)
    for line, tree in enumerate(batch):
        positions[line, : len(tree)] = tree.positions
        visible[line, 0, : len(tree), : reach + len(tree)] = tree.visible(reach)
    keys = np.concatenate([np.broadcast_to(np.arange(reach), (lines, reach)), positions], axis=1)
    where = on_device(network, positions)
    masks = network.additive_masks(
        torch.from_numpy(visible).to(network.device), where, on_device(network, keys)[:, None, None]
    )
    prefixes = None
    if reach:
        assert pool is not None
        rows = np.array([max(tree.row, 0) for tree in batch])
        prefixes = CachedPrefixes(pool, on_device(network, rows), reach)
    return network.hidden_with_masks(on_device(network, ids), where, masks, prefixes)
