"""Putting a page together: packaged scripts and styles, the content policy, and an atomic write."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def asset(name: str) -> str:
    """Text of a file in the package's ``page`` folder."""
    return resources.files("turnpoint.inspector").joinpath("page", name).read_text(encoding="utf-8")


def bundle(names: Sequence[str]) -> str:
    """Several assets after one another."""
    return "\n".join(asset(name).rstrip("\n") for name in names) + "\n"


def digest(text: str) -> str:
    """The source expression that allows exactly this inline text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def content_policy(script: str, style: str, *, loads_data: bool = False) -> str:
    """A policy under which only the page's own script and style work and nothing is fetched.

    ``loads_data``: the script may add data files that lie beside the page.
    """
    scripts = digest(script) + (" 'strict-dynamic'" if loads_data else "")
    return f"default-src 'none'; script-src {scripts}; style-src {digest(style)}; base-uri 'none'; form-action 'none'"


@cache
def templates() -> Environment:
    """Jinja with every value escaped and every missing name an error."""
    return Environment(
        loader=PackageLoader("turnpoint.inspector", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_atomically(path: Path, text: str) -> Path:
    """Write beside ``path`` and rename, so that a reader never sees half a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
