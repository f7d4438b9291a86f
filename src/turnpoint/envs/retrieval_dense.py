"""Dense retrieval with a sentence-transformers model: exact inner products over the whole corpus."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.retrieval import DenseSettings, Passage, passage_of
from turnpoint.envs.text_store import TextStore

_BATCH = 64


class DenseRetriever:
    """Embeds the corpus when it is made: minutes for a million passages on a GPU, so for small corpora on a CPU."""

    def __init__(self, store: TextStore, settings: DenseSettings, model: Any = None) -> None:
        """``model``: anything with ``encode(list of texts) -> array``; None loads the one that is named."""
        self._store, self._settings = store, settings
        self._model = _load(settings) if model is None else model
        texts = [
            settings.passage_prefix + store.record(i)["title"] + "\n" + store.record(i)["text"]
            for i in range(store.count)
        ]
        self._vectors = self._encode(texts)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """See ``Retriever``; equal scores go by number."""
        scores = self._encode([self._settings.query_prefix + query for query in queries]) @ self._vectors.T
        found = []
        for row in scores:
            best = np.argsort(-row, kind="stable")[:topk]
            found.append([passage_of(self._store.record(int(i)), float(row[i])) for i in best])
        return found

    def close(self) -> None:
        """Nothing is held."""

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors, ``[len(texts), width]``."""
        pieces = [
            np.asarray(self._model.encode(texts[at : at + _BATCH]), np.float32)
            for at in range(0, len(texts), _BATCH)
        ]
        vectors = np.concatenate(pieces)
        unit: NDArray[np.float32] = vectors / np.maximum(
            np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12
        )
        return unit


def _load(settings: DenseSettings) -> Any:
    if find_spec("sentence_transformers") is None:
        raise EnvDataError(
            "retriever: dense needs sentence-transformers, which is not installed: pip install 'turnpoint[dense]'; or "
            "set retriever.kind: bm25, or http with a server of your own"
        )
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(settings.model, device=settings.device)
    except (OSError, ValueError) as error:
        raise EnvDataError(f"retriever.model: '{settings.model}' cannot be loaded: {error}") from error
