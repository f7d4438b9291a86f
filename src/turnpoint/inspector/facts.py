"""What was run, from a run's config and header, as short texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnpoint.inspector.folder import RunFolder
from turnpoint.inspector.text import clip_note
from turnpoint.training.outcome import spent_lines

_MOST = 60
_LONG = 300


def _kind(section: Any) -> str:
    if isinstance(section, dict):
        return str(section.get("kind", "?"))
    return "none" if section is None else str(section)


def facts(run: RunFolder) -> list[tuple[str, str]]:
    """(name, value) of what a reader wants to know first."""
    config, header = run.config, run.header
    train = config.get("train") if isinstance(config.get("train"), dict) else {}
    found: list[tuple[str, Any]] = [("run", config.get("name") or run.path.name)]
    if config:
        found += [(name, _kind(config.get(name))) for name in ("method", "env", "policy", "teacher")]
        found.append(("seed", config.get("seed", header.get("seed"))))
        found.append(("steps", f"{len(run.train)} of {(train or {}).get('steps', '?')}"))
    found += [("cost", line) for line in spent_lines(run.train)]
    if header:
        found.append(("turnpoint", header.get("turnpoint")))
        found.append(("python", header.get("python")))
        packages = header.get("packages")
        if isinstance(packages, dict):
            found.append(("packages", ", ".join(f"{k} {v}" for k, v in packages.items() if v)))
        found.append(("platform", header.get("platform")))
    return [(name, clip_note(str(value), _LONG)) for name, value in found if value is not None]


def data_facts(header: dict[str, Any]) -> list[tuple[str, str]]:
    """The environment's own account of its data (hashes, counts), flattened; bounded."""
    rows: list[tuple[str, str]] = []
    for name, value in _flat(header.get("env"), ""):
        if len(rows) == _MOST:
            rows.append(("…", "more in header.json"))
            break
        rows.append((clip_note(name, 120), clip_note(value, _LONG)))
    return rows


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        yield prefix, ", ".join(str(item) for item in value[:20]) + (" …" if len(value) > 20 else "")
    elif value is not None:
        yield prefix or "env", str(value)
