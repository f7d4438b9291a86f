"""A check at start-up that the engine computes what the model computes."""

from __future__ import annotations

import torch

from turnpoint.config import ConfigError
from turnpoint.policy.local.forest import forest
from turnpoint.policy.local.network import Network
from turnpoint.policy.local.passes import tree_states

LENGTH, SPLIT = 12, 7
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25}


def check_network(network: Network) -> None:
    """Compare log-probs by body and head, through the pool and of a tree, with the model's own forward pass.

    Models with attention the pool cannot serve, or with an output layer the head does not mirror, would
    otherwise train on wrong numbers. Raises ``ConfigError`` naming the model.
    """
    name = type(network.model).__name__
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, network.vocabulary, (2, LENGTH), generator=generator).to(network.device)
    ids[1, :SPLIT] = ids[0, :SPLIT]
    with torch.inference_mode():
        try:
            expected = network.model(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)
            plain = network.logits(network.hidden(ids)).log_softmax(-1)
            pooled = _through_pool(network, ids)
            branched = _through_tree(network, ids)
        except (
            TypeError,
            AttributeError,
            NotImplementedError,
            RuntimeError,
            IndexError,
            ValueError,
        ) as error:
            raise ConfigError(
                f"policy.model is a {name}, which the local engine cannot run ({error}); choose a causal language "
                "model with standard attention (Llama, Qwen, Gemma, GPT-NeoX and the like)"
            ) from error
    sides = (
        ("its output layer", plain),
        ("its key-value cache", pooled),
        ("sequences that begin alike", branched),
    )
    for what, got in sides:
        gap = float((got - expected).abs().max())
        if not gap <= TOLERANCE.get(network.dtype, 0.25):
            raise ConfigError(
                f"policy.model is a {name}; with {what} handled by the local engine log-probs are off by {gap:.3g}, "
                "so its architecture is not supported. Choose a model with standard attention"
            )


def _through_pool(network: Network, ids: torch.Tensor) -> torch.Tensor:
    """Log-probs from a prefill of ragged lengths, then one token at a time, rows at different positions."""
    pool = network.pool(2, LENGTH)
    parts = []
    starts = torch.zeros(2, 1, dtype=torch.long, device=network.device)
    for width in (SPLIT, *[1] * (LENGTH - SPLIT)):
        positions = starts + torch.arange(width, device=network.device)
        masks = network.masks(positions, int(positions.max()) + 1)
        new = ids.gather(1, positions)
        parts.append(network.hidden_with_pool(new, positions, masks, pool, slice(0, 2)))
        starts = starts + width
    return network.logits(torch.cat(parts, 1)).log_softmax(-1)


def _through_tree(network: Network, ids: torch.Tensor) -> torch.Tensor:
    """Log-probs of lines that begin alike, what they share computed once."""
    items = [(line[:1], [*line[1:], 0]) for line in ids.tolist()]
    (tree,) = forest(items, lookup=None, token_budget=2 * LENGTH, mask_elements=4 * LENGTH**2)
    states = tree_states(network, [tree]).view(len(items), LENGTH, -1)
    order = sorted(range(len(items)), key=lambda i: tree.spots[i].item)
    return network.logits(states[order]).log_softmax(-1)
