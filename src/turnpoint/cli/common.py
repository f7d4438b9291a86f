"""What commands share: consoles, exit codes, JSON on stdout, user faults as sentences."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console

from turnpoint.config import ConfigError

NO = 1
"""Exit code: the command worked and its answer is no."""
WRONG_USE = 2
"""Exit code: the command could not be run as asked."""


def console() -> Console:
    """Progress goes to stderr, so that stdout holds results only."""
    return Console(stderr=True, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")


def fail(message: str) -> NoReturn:
    """Say what is wrong on stderr and exit with code 2; text of others in it cannot change the terminal."""
    from turnpoint.inspector.text import visible

    sys.stderr.write(f"turnpoint: {visible(message)}\n")
    raise typer.Exit(WRONG_USE)


@contextmanager
def user_faults() -> Iterator[None]:
    """Turn errors that a user can mend into one message and exit code 2; others keep their trace."""
    from turnpoint.envs import EnvDataError
    from turnpoint.records import RecordError
    from turnpoint.teachers.protocol import TeacherError

    try:
        yield
    except (ConfigError, EnvDataError, RecordError, TeacherError) as error:
        fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("torch", "transformers", "safetensors", "tokenizers"):
            fail(f"{error.name} is not installed; this command needs it: pip install 'turnpoint[train]'")
        raise
    except KeyboardInterrupt:
        fail("interrupted; finished steps and checkpoints are kept")


def config_path(text: str) -> Path:
    """A recipe file, or the name of one of the recipes that come with the package."""
    from turnpoint.cli.recipes import find_recipe

    return find_recipe(text)
