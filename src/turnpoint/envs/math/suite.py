"""The math environment with its problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from turnpoint.envs.child import lost_processes
from turnpoint.envs.math.checker import Checker
from turnpoint.envs.math.env import MathEnv
from turnpoint.envs.math.settings import CAPABILITIES, MathSettings
from turnpoint.envs.math.sources import open_source
from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.records import Task


class MathSuite:
    """What the ``math`` section of a run config builds."""

    name = "math"
    capabilities = CAPABILITIES
    instructions = "You solve a mathematics problem. Your reply is the whole solution."

    def __init__(self, settings: MathSettings) -> None:
        self.settings = settings
        self.max_turns: int = settings.max_turns
        self.sources = {split: open_source(split, settings) for split in ("train", "valid")}
        self.checker = Checker(settings.check_seconds, settings.check_memory_mb)

    def tasks(self, split: str) -> Sequence[Task]:
        """Problems of ``train`` or ``valid`` in a fixed order."""
        if split not in self.sources:
            raise EnvDataError(f"math has no split '{split}'; use train or valid")
        return self.sources[split].tasks()

    def make(self) -> MathEnv:
        """A new copy; copies share the process that checks answers."""
        return MathEnv(self.settings, self.checker)

    def counters(self) -> dict[str, float]:
        """Verdicts on answers by reason, and checking processes that were replaced."""
        verdicts = {f"verdict_{name.replace(' ', '_')}": float(n) for name, n in self.checker.counts.items()}
        return verdicts | lost_processes([self.checker.child])

    def header(self) -> dict[str, Any]:
        """Sources with their hashes, and the version of the checker."""
        sources = {split: source.header() for split, source in self.sources.items()}
        return {"env": self.name, "math-verify": version("math-verify"), **sources}

    def vocabulary_texts(self) -> Iterable[str]:
        """Mathematics is an open language."""
        raise EnvError("math problems and solutions are an open language; use a model with a full tokenizer")
