"""``python -m turnpoint.policy.verl RECIPE [section.setting=value ...]``: ``turnpoint train`` with ``backend=verl``."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points


def main(arguments: list[str]) -> None:
    """Run ``turnpoint train`` on verl; the command is found by its entry point, as this room may not import it."""
    (command,) = entry_points(group="console_scripts", name="turnpoint")
    sys.argv = [
        "turnpoint",
        "train",
        *arguments[:1],
        *(["backend=verl"] if arguments else []),
        *arguments[1:],
    ]
    command.load()()


if __name__ == "__main__":
    main(sys.argv[1:])
