"""A pool of key-value rows with a length per row, behind the transformers cache interface."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

Rows = slice | Tensor
"""Pool rows of a forward pass: a contiguous range (views, no copy) or an index tensor (gathered)."""


class PoolLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, ``[rows, heads, length, dim]``; allocated at the first write."""

    is_sliding = False

    def __init__(self, pool: KVPool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pool = pool

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate, filled with zeros: masked garbage is multiplied by 0, so it must be finite."""
        self.keys = self._zeros(key_states)
        self.values = self._zeros(value_states)
        self.is_initialized = True

    def _zeros(self, like: Tensor) -> Tensor:
        shape = (self.pool.rows, like.shape[1], self.pool.length, like.shape[3])
        return torch.zeros(shape, dtype=like.dtype, device=like.device)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write ``[batch, heads, q, dim]`` at the planned rows and positions; return all keys in reach."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        pool = self.pool
        result = []
        assert self.keys is not None
        assert self.values is not None
        for store, states in ((self.keys, key_states), (self.values, value_states)):
            # Index tensors apart in the subscript put their own axes first: [batch, heads, dim] for one new
            # token a row, [batch, q, heads, dim] for several.
            if pool.positions.shape[1] == 1:
                store[pool.row_column, :, pool.position_column] = states[:, :, 0]
            else:
                store[pool.row_index, :, pool.positions] = states.transpose(1, 2)
            result.append(store[pool.selected, :, : pool.reach])
        return result[0], result[1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys in reach of the planned pass, and their offset."""
        return self.pool.reach, 0

    def get_seq_length(self) -> int:
        """Unused: positions are always explicit."""
        return 0

    def get_max_cache_shape(self) -> int:
        """No fixed maximum."""
        return -1

    def resize(self) -> None:
        """Grow to the pool's size, keeping contents."""
        if not self.is_initialized:
            return
        for name in ("keys", "values"):
            old = getattr(self, name)
            shape = (self.pool.rows, old.shape[1], self.pool.length, old.shape[3])
            new = torch.zeros(shape, dtype=old.dtype, device=old.device)
            new[: old.shape[0], :, : old.shape[2]] = old
            setattr(self, name, new)


class KVPool(Cache):
    """Rows of cached keys and values. A forward pass first plans which rows and positions it writes.

    What lies beyond a row's length is garbage that masks must hide; lengths are the caller's to keep.
    """

    def __init__(self, layers: int, rows: int, length: int, device: torch.device) -> None:
        self.rows, self.length, self.device = rows, length, device
        self.pool_layers = [PoolLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self.pool_layers))

    def plan(self, selected: Rows, positions: Tensor, reach: int) -> None:
        """The next pass writes at ``positions [batch, q]`` of the selected rows and sees keys ``[0, reach)``."""
        if isinstance(selected, slice):
            rows = torch.arange(selected.start, selected.stop, device=self.device)
        else:
            rows = selected
        self.selected, self.positions, self.reach = selected, positions, reach
        self.row_index = rows[:, None]
        self.row_column, self.position_column = rows, positions[:, 0]

    def grow(self, rows: int, length: int) -> None:
        """Make room for at least this many rows and tokens per row."""
        if rows <= self.rows and length <= self.length:
            return
        self.rows, self.length = max(rows, self.rows), max(length, self.length)
        for layer in self.pool_layers:
            layer.resize()

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of a row to another row."""
        if source == target or length == 0:
            return
        for store in self._stores():
            store[target, :, :length] = store[source, :, :length]

    def swap(self, a: int, b: int, length_a: int, length_b: int) -> None:
        """Exchange two rows of the given lengths."""
        for store in self._stores():
            kept = store[a, :, :length_a].clone()
            store[a, :, :length_b] = store[b, :, :length_b]
            store[b, :, :length_a] = kept

    def _stores(self) -> list[Tensor]:
        stores = [store for layer in self.pool_layers for store in (layer.keys, layer.values)]
        return [store for store in stores if store is not None]


class _PrefixLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of ``CachedPrefixes``."""

    is_sliding = False

    def __init__(self, prefixes: CachedPrefixes, source: PoolLayer) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefixes, self.source = prefixes, source

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing is kept."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """The prefixes' keys and values, then the given ones."""
        rows, reach = self.prefixes.rows, self.prefixes.reach
        assert self.source.keys is not None
        assert self.source.values is not None
        return (
            torch.cat([self.source.keys[rows, :, :reach], key_states], dim=2),
            torch.cat([self.source.values[rows, :, :reach], value_states], dim=2),
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys of the pass, and their offset."""
        return self.prefixes.reach + query_length, 0

    def get_seq_length(self) -> int:
        """Unused: positions are always explicit."""
        return 0

    def get_max_cache_shape(self) -> int:
        """No fixed maximum."""
        return -1


class CachedPrefixes(Cache):
    """The first ``reach`` tokens of some pool rows, to read from: a forward pass over them leaves the pool alone."""

    def __init__(self, pool: KVPool, rows: Tensor, reach: int) -> None:
        self.rows, self.reach = rows, reach
        super().__init__(layers=[_PrefixLayer(self, layer) for layer in pool.pool_layers])
