"""Which interpreter and which packages a sandbox shows: pytest, what a task names, and nothing else that is installed.

Other site-packages stay out because a task may have been made from an installed package: there lies its solution.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from turnpoint.envs.protocol import EnvDataError

SITE = "/opt/site"
PYTHON = "/opt/python"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter as the sandbox sees it."""

    program: str
    """Its path in the sandbox."""
    shown: tuple[tuple[str, str], ...]
    """Folders and files to show read-only: their place here, their place there."""
    hidden: tuple[str, ...]
    """Folders there that have to be empty."""
    path: str
    """Start of the module search path."""


def own_interpreter(requires: Iterable[str]) -> Interpreter:
    """The interpreter that runs now, with pytest and ``requires`` (names of distributions) and what they need."""
    real, base = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
    inside_usr = base.is_relative_to("/usr")
    home = str(base) if inside_usr else PYTHON
    program = f"{home}/{real.relative_to(base)}" if real.is_relative_to(base) else str(real)
    shown = [] if inside_usr else [(str(base), PYTHON)]
    hidden = [f"{home}/{folder.relative_to(base)}" for folder in _site_folders(base)]
    if not inside_usr:
        hidden += [str(f) for prefix in ("/usr", "/usr/local") for f in _site_folders(Path(prefix))]
    shown += [(str(path), f"{SITE}/{path.name}") for path in sorted(_top_level(("pytest", *requires)))]
    return Interpreter(program, tuple(shown), tuple(dict.fromkeys(hidden)), SITE)


def other_interpreter(python: Path) -> Interpreter:
    """The user's interpreter with everything that is installed for it. Raises ``EnvDataError`` without pytest."""
    ask = "import sys, json, pytest; print(json.dumps([sys.prefix, sys.base_prefix]))"
    try:
        done = subprocess.run(
            [str(python), "-c", ask], capture_output=True, text=True, timeout=60, check=True
        )
        prefixes = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvDataError(
            f"sandbox.python: '{python}' cannot run pytest ({error}); give an interpreter that has it"
        ) from error
    shown = [(p, p) for p in dict.fromkeys(prefixes) if not Path(p).is_relative_to("/usr")]
    return Interpreter(str(python.absolute()), tuple(shown), (), "")


def _site_folders(prefix: Path) -> list[Path]:
    patterns = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib64/python3*/site-packages")
    return [folder for pattern in patterns for folder in sorted(prefix.glob(pattern)) if folder.is_dir()]


def _top_level(names: Iterable[str]) -> set[Path]:
    """Modules, packages and metadata of distributions and of all they need, as they lie in site-packages."""
    from packaging.requirements import Requirement

    found: set[Path] = set()
    open_names, seen = list(names), set[str]()
    while open_names:
        name = open_names.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise EnvDataError(
                f"the tests need '{name}', which is not installed: pip install {name}"
            ) from None
        tops = {
            file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")
        }
        found |= {path for top in tops if (path := Path(str(distribution.locate_file(top)))).exists()}
        for line in distribution.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                open_names.append(requirement.name)
    return found
