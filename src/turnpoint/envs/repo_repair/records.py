"""Tasks in a file: repositories, faults, and the tests that judge a repair.

A JSONL file: a header, then one line for each repository and each task. Gold patches are in it, so it is never shown to
a sandbox.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.repo_repair.sandbox import File

FORMAT, VERSION = "turnpoint-repo-repair", 1


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a file, by its number from 1, and its new text with indentation."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """One task."""

    id: str
    repository: str
    problem: str
    """What the agent is told."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    type: str = ""
    split: str = "train"
    fault: Change | None = None
    """The injected fault, where there is one: the repository is shown with it."""
    fixes: tuple[Change, ...] = ()
    """Every listed change of one line after which all tests pass; the first undoes the fault."""
    gold: Mapping[str, str | None] = field(default_factory=dict)
    """Files after the repair, where the fault is not injected; None = the file is gone."""
    tests: Mapping[str, str | None] = field(default_factory=dict)
    """Files that are put in before grading, and not shown."""
    requires: tuple[str, ...] = ()
    """Distributions that the tests need besides pytest."""

    def to_line(self) -> dict[str, Any]:
        """The task as plain JSON, without what is empty."""
        fields = asdict(self)
        return {"task": fields.pop("id"), **{name: value for name, value in fields.items() if value}}

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> Record:
        """Inverse of ``to_line``. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        fields = dict(line)
        for name in ("fail_to_pass", "pass_to_pass", "requires"):
            fields[name] = tuple(map(str, fields.get(name, ())))
        fields["fault"] = Change(**fields["fault"]) if fields.get("fault") else None
        fields["fixes"] = tuple(Change(**change) for change in fields.get("fixes", ()))
        return cls(id=str(fields.pop("task")), **fields)


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository that lies in a git clone on this machine."""

    path: str
    commit: str


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A file of tasks, read."""

    header: dict[str, Any]
    repositories: Mapping[str, Mapping[str, File] | Clone]
    records: tuple[Record, ...]
    sha256: str


def write_tasks(
    path: Path,
    header: Mapping[str, Any],
    repositories: Mapping[str, Mapping[str, File] | Clone],
    records: Iterable[Record],
) -> str:
    """Write a file of tasks; gives its SHA-256."""
    lines: list[dict[str, Any]] = [{"format": FORMAT, "version": VERSION, **header}]
    for name, content in repositories.items():
        if isinstance(content, Clone):
            lines.append({"repository": name, "git": content.path, "commit": content.commit})
        else:
            lines.append({"repository": name, "files": {p: _packed(f) for p, f in content.items()}})
    lines += [record.to_line() for record in records]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)
    return hashlib.sha256(data).hexdigest()


def read_tasks(path: Path) -> TaskFile:
    """Read a file of tasks. Raises ``EnvDataError`` with the line that is unusable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnvDataError(
            f"tasks: '{path}' cannot be read ({error.strerror}); make it with turnpoint envs prepare repo_repair"
        ) from error
    repositories: dict[str, Mapping[str, File] | Clone] = {}
    records: list[Record] = []
    header: dict[str, Any] = {}
    # Not str.splitlines(), which also breaks at characters that may stand in a JSON text.
    for number, text in enumerate(data.rstrip(b"\n").split(b"\n"), start=1):
        try:
            line = json.loads(text.decode("utf-8", "surrogateescape"))
            if number == 1:
                header = _header(line)
            elif "git" in line:
                repositories[line["repository"]] = Clone(str(line["git"]), str(line["commit"]))
            elif "files" in line:
                repositories[line["repository"]] = {p: _unpacked(f) for p, f in line["files"].items()}
            else:
                records.append(Record.of_line(line))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EnvDataError(f"tasks: '{path}', line {number} is unusable: {error}") from error
    lacking = [record.id for record in records if record.repository not in repositories]
    if lacking or not records:
        raise EnvDataError(f"tasks: '{path}' has no {f'repository of {lacking[0]}' if lacking else 'tasks'}")
    return TaskFile(header, repositories, tuple(records), hashlib.sha256(data).hexdigest())


def _header(line: Any) -> dict[str, Any]:
    if not isinstance(line, dict) or line.get("format") != FORMAT:
        raise ValueError("it is no file of turnpoint envs prepare repo_repair")
    if line.get("version") != VERSION:
        raise ValueError(f"it has version {line.get('version')}, here {VERSION} is read; prepare it again")
    return line


def _packed(file: File) -> Any:
    try:
        if not file.mode:
            return file.data.decode()
    except UnicodeDecodeError:
        pass
    return {"base64": base64.b64encode(file.data).decode(), "mode": file.mode}


def _unpacked(value: Any) -> File:
    if isinstance(value, str):
        return File(value.encode())
    return File(base64.b64decode(value["base64"]), str(value["mode"]))
