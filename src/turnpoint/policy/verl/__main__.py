"""``python -m turnpoint.policy.verl RECIPE [section.setting=value ...]``: ``turnpoint train`` with ``backend=verl``."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points


def train_arguments(given: list[str]) -> list[str]:
    """Arguments of ``turnpoint train``; the override comes last, wherever among the others the recipe stands."""
    named = any(not argument.startswith("-") for argument in given)
    return ["train", *given, *(["backend=verl"] if named else [])]


def main(arguments: list[str]) -> None:
    """Run ``turnpoint train`` on verl; the command is found by its entry point, as this room may not import it."""
    (command,) = entry_points(group="console_scripts", name="turnpoint")
    sys.argv = ["turnpoint", *train_arguments(arguments)]
    command.load()()


if __name__ == "__main__":
    main(sys.argv[1:])
