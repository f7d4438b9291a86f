"""Dense retrieval with a sentence-transformers model: exact inner products over the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.retrieval import DenseSettings, Passage, passage_of
from turnpoint.envs.text_store import TextStore

_BATCH = 64


class DenseRetriever:
    """Embeds the corpus when it is made: minutes for a million passages on a GPU, so for small corpora on a CPU.

    With ``settings.index`` that happens once.
    """

    def __init__(self, store: TextStore, settings: DenseSettings, model: Any = None) -> None:
        """``model``: anything with ``encode(list of texts) -> array``; None loads the one that is named.

        Raises ``EnvDataError`` if the model cannot be loaded, or the index file is of something else.
        """
        self._store, self._settings = store, settings
        self._model = _load(settings) if model is None else model
        self._vectors = _Index(settings, store).vectors(self._embed_all)

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

    def _embed_all(self) -> NDArray[np.float32]:
        records = (self._store.record(number) for number in range(self._store.count))
        prefix = self._settings.passage_prefix
        return self._encode([f"{prefix}{record['title']}\n{record['text']}" for record in records])

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


class _Index:
    """The file with the vectors of a corpus, if there is to be one."""

    def __init__(self, settings: DenseSettings, store: TextStore) -> None:
        self.path = Path(settings.index).expanduser() if settings.index else None
        self.key = repr((store.facts["sha256"], settings.model, settings.passage_prefix))

    def vectors(self, embed: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
        """From the file, or made and kept there. Raises ``EnvDataError`` if the file is of something else."""
        if self.path is None:
            return embed()
        if self.path.exists():
            return self._read(self.path)
        found = embed()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.part")
        with part.open("wb") as file:
            np.savez(file, key=np.array(self.key), vectors=found)
        part.replace(self.path)
        return found

    def _read(self, path: Path) -> NDArray[np.float32]:
        try:
            with np.load(path) as kept:
                key, found = str(kept["key"]), kept["vectors"]
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise EnvDataError(
                f"retriever.index: '{path}' cannot be read ({error}); delete it, and it is made again"
            ) from error
        if key != self.key:
            raise EnvDataError(
                f"retriever.index: '{path}' has the vectors of {key}, and here they are of {self.key} (corpus, model, "
                "prefix); name another file, or delete it"
            )
        return np.asarray(found, np.float32)


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
