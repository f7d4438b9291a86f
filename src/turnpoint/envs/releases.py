"""Known data: hashes of the files, as they are inside of any packing, that this version was tested with."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from pathlib import Path
from typing import IO, Any

from turnpoint.envs.protocol import EnvDataError

KNOWN = {
    "1d40c9a831f9ef6278e251eb779b4ab7f5304f84b27f92cc086844a46c6a1d44": (
        "WebShop's catalogue of 1,000 products with attributes and instructions, compact (6,910 goals)"
    ),
    "05ff63a0ad2deda731821cad618a7dfaa24a02cf48315862a5f6e80c8b392a48": "3,675 questions of seven sets",
    "e62872a78918abc0b596dfa7b2b5ef4dddd06e0b9d80d2413c70d63faa5f32b0": "9,652 passages of Wikipedia of 2018",
    "3337edf5365d741da5077663916cf6dc54fc4214f0f6677ac3afccbc21f65a7c": "6,119 passages of 2WikiMultihopQA",
    "af2b8bd2aa911b6333ad0df32f3ca05c7ae8ed10f1731f4372c8ae26990bf7ac": "AIME 2024, 30 problems",
    "43707e1ca784602d8479de24ee8ce36609dbebc46dd152b0b12a46611aa898a4": "AMC 2023, 40 problems",
}
"""What each SHA-256 is."""
UNKNOWN = "unknown: none of the files that this version was tested with; keep its hash with your results"


def open_packed(path: Path) -> IO[bytes]:
    """A file as it is, or unpacked where its name ends in ``.xz`` or ``.gz``."""
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    return opener(path, "rb")  # type: ignore[no-any-return]


def content_hash(path: Path) -> str:
    """SHA-256 of what is inside. Raises ``EnvDataError`` if the packing is broken."""
    digest = hashlib.sha256()
    try:
        with open_packed(path) as stream:
            while part := stream.read(1 << 20):
                digest.update(part)
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        raise EnvDataError(f"'{path}' cannot be read: {error}") from error
    return digest.hexdigest()


def release_of(sha256: str) -> str:
    """What a file is by its content's hash; an unknown one is allowed, and said to be so."""
    return KNOWN.get(sha256, UNKNOWN)


def releases(paths: list[Path]) -> dict[str, str]:
    """What each file is, by its name."""
    return {path.name: release_of(content_hash(path)) for path in paths}
