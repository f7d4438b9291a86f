"""Kinds: a name in a config's ``kind`` field and the settings class behind it."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from turnpoint.config.strict import ConfigError, Settings

S = TypeVar("S", bound=Settings)


class Registry(Generic[S]):
    """Maps kinds to settings classes: built-in ones, entry points, and ``module:attr`` paths.

    Built-in kinds are given as ``module:attr`` strings and imported on first use, so that listing
    kinds costs no import.
    """

    def __init__(self, group: str, base: type[S], builtin: dict[str, str]) -> None:
        self.group = group
        self.base = base
        self._paths = dict(builtin)

    def add(self, kind: str, path: str) -> None:
        """Register a built-in kind of a room above this registry's. Raises ``ValueError`` if the name is taken."""
        if self._paths.setdefault(kind, path) != path:
            raise ValueError(f"{self.group} kind '{kind}' is registered already, as {self._paths[kind]}")

    def names(self) -> list[str]:
        """Every registered kind, built-in ones first."""
        outside = sorted(point.name for point in entry_points(group=self.group))
        return [*self._paths, *(name for name in outside if name not in self._paths)]

    def get(self, kind: str) -> type[S]:
        """The settings class of ``kind``. Raises ``ConfigError`` with the nearest name if there is none."""
        if kind in self._paths:
            return self._load(self._paths[kind])
        for point in entry_points(group=self.group, name=kind):
            return self._checked(point.load(), kind)
        if ":" in kind:
            return self._load(kind)
        near = difflib.get_close_matches(kind, self.names(), n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known kinds: {', '.join(self.names())}"
        raise ConfigError(
            f"no {self.group} kind is called '{kind}'; {hint} (or give your own as module:attr)"
        )

    def parse(self, data: Any) -> S:
        """Settings of the class that ``data['kind']`` names; settings objects pass through."""
        if isinstance(data, self.base):
            return data
        if isinstance(data, str):
            data = {"kind": data}
        if not isinstance(data, dict) or "kind" not in data:
            raise ConfigError(f"a {self.group} section needs 'kind': one of {', '.join(self.names())}")
        return self.get(str(data["kind"])).model_validate(data)

    def _load(self, path: str) -> type[S]:
        module, _, attribute = path.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"{self.group} kind '{path}' cannot be imported: {error}; install the package it is in, or set "
                "PYTHONPATH to the folder that holds it"
            ) from error
        return self._checked(found, path)

    def _checked(self, found: Any, kind: str) -> type[S]:
        if isinstance(found, type) and issubclass(found, self.base):
            return found
        raise ConfigError(f"{self.group} kind '{kind}' is not a subclass of {self.base.__name__}")
