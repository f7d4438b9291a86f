"""SWE-bench: its instances as tasks, submissions as its prediction files, and its own harness where Docker runs."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.repo_repair.clones import read_clone
from turnpoint.envs.repo_repair.patches import apply_patch, make_patch
from turnpoint.envs.repo_repair.records import Clone, Record, write_tasks
from turnpoint.envs.repo_repair.settings import RepoRepairSettings
from turnpoint.envs.repo_repair.shelf import Shelf, handed_in
from turnpoint.envs.repo_repair.tree import Tree
from turnpoint.envs.seeded import split_of
from turnpoint.records import Episode

HARNESS = "swebench.harness.run_evaluation"
_NEEDED = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
_TESTS = ("FAIL_TO_PASS", "PASS_TO_PASS")


def read_instances(path: Path) -> list[dict[str, Any]]:
    """Instances of a ``.json``, ``.jsonl`` or ``.parquet`` file, with lists of tests.

    Raises ``EnvDataError`` with the first instance that lacks a field.
    """
    try:
        rows = list(_rows(path))
    except (OSError, ValueError) as error:
        raise EnvDataError(f"swebench: '{path}' cannot be read: {error}") from error
    for number, row in enumerate(rows):
        name = row.get("instance_id", f"row {number}") if isinstance(row, dict) else f"row {number}"
        lacking = [field for field in (*_NEEDED, *_TESTS) if not isinstance(row, dict) or field not in row]
        if lacking:
            raise EnvDataError(f"swebench: '{path}', {name} has no {', '.join(lacking)}")
        for field in _TESTS:
            row[field] = _tests(row[field], f"'{path}', {name}, {field}")
    if not rows:
        raise EnvDataError(f"swebench: '{path}' holds no instances")
    return rows


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        try:
            from pyarrow import parquet
        except ImportError:
            raise EnvDataError("reading Parquet needs pyarrow: pip install 'turnpoint[parquet]'") from None
        yield from parquet.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        yield from (json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip())
    else:
        data = json.loads(path.read_bytes())
        yield from data if isinstance(data, list) else data.values()


def _tests(value: Any, where: str) -> list[str]:
    """SWE-bench writes lists of tests as JSON in a string."""
    try:
        tests = json.loads(value) if isinstance(value, str) else list(value)
    except (TypeError, ValueError) as error:
        raise EnvDataError(f"swebench: {where} is no list of tests: {error}") from error
    if not isinstance(tests, list):
        raise EnvDataError(f"swebench: {where} is no list of tests")
    return [str(test) for test in tests]


def instances_to_tasks(
    instances: Path, clones: Path | None, out: Path, split: str = "valid"
) -> dict[str, Any]:
    """Write a file of tasks over local clones; gives counts, the hash, and what was left out and why.

    ``split``: that of all instances, or ``divided``. Raises ``EnvDataError`` if no instance can be used.
    """
    if clones is None:
        raise EnvDataError("swebench instances need clones: a folder with a git clone of each repository")
    records: list[Record] = []
    repositories: dict[str, Clone] = {}
    left_out: dict[str, str] = {}
    for row in read_instances(instances):
        try:
            clone = Clone(str(_clone_of(row["repo"], clones).resolve()), str(row["base_commit"]))
            records.append(_record(row, clone, split))
        except (EnvError, EnvDataError) as error:
            left_out[str(row["instance_id"])] = str(error)
        else:
            repositories[records[-1].repository] = clone
    if not records:
        raise EnvDataError(f"no instance of '{instances}' can be used: {next(iter(left_out.values()))}")
    digest = write_tasks(out, {"swebench": instances.name}, repositories, records)
    return {"file": str(out), "sha256": digest, "tasks": len(records), "left_out": left_out}


def _clone_of(repository: str, clones: Path) -> Path:
    owner, _, name = repository.rpartition("/")
    for folder in (clones / f"{owner}__{name}", clones / owner / name, clones / name):
        if folder.is_dir():
            return folder
    raise EnvDataError(f"there is no clone of {repository} in '{clones}'; git clone it to {owner}__{name}")


def _record(row: Mapping[str, Any], clone: Clone, split: str) -> Record:
    files = read_clone(clone)
    return Record(
        id=str(row["instance_id"]),
        repository=f"{row['repo']}@{clone.commit[:12]}",
        problem=str(row["problem_statement"]),
        fail_to_pass=tuple(row["FAIL_TO_PASS"]),
        pass_to_pass=tuple(row["PASS_TO_PASS"]),
        type=str(row["repo"]),
        split=split_of(str(row["instance_id"])) if split == "divided" else split,
        gold=apply_patch(files, str(row["patch"])),
        tests=apply_patch(files, str(row["test_patch"])),
    )


def predictions(trees: Iterable[tuple[str, Tree]], model: str) -> Iterator[dict[str, str]]:
    """Prediction lines, as SWE-bench's harness reads them, from instances and the trees that were handed in."""
    for instance, tree in trees:
        yield {"instance_id": instance, "model_name_or_path": model, "model_patch": make_patch(tree)}


def write_predictions(
    episodes: Iterable[Episode], settings: RepoRepairSettings, out: Path, model: str
) -> dict[str, Any]:
    """Write what the first episode of each task handed in; gives counts. Raises ``EnvError`` for unreadable clones."""
    if settings.actions != "open":
        raise EnvDataError("predictions are made of open play; set actions: open")
    shelf, trees, left_out = Shelf(settings.file), dict[str, Tree](), Counter[str]()
    for episode in episodes:
        name = episode.task.id
        if name not in shelf.records:
            left_out["of other tasks"] += 1
        elif name in trees:
            left_out["further episodes of a task"] += 1
        else:
            trees[name] = handed_in(shelf.job(name), (turn.executed for turn in episode.turns))
    lines = list(predictions(trees.items(), model))
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    empty = sum(not line["model_patch"] for line in lines)
    return {"file": str(out), "predictions": len(lines), "empty": empty, "left_out": dict(left_out)}


def missing_for_harness() -> str:
    """What SWE-bench's harness lacks here; empty if it can run."""
    if importlib.util.find_spec("swebench") is None:
        return "SWE-bench's harness is not installed: pip install swebench"
    if shutil.which("docker") is None:
        return "SWE-bench's harness runs each instance in a Docker image, and there is no docker here"
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False)
    return (
        "" if asked.returncode == 0 else "docker is installed, but its service does not answer (docker info)"
    )


def evaluate(predictions_file: Path, dataset: str, run_id: str, options: Iterable[str] = ()) -> int:
    """Run SWE-bench's harness on a prediction file; gives its exit status.

    Raises ``EnvDataError`` where it cannot run.
    """
    if lacking := missing_for_harness():
        raise EnvDataError(
            f"{lacking}. The prediction file can be evaluated on another machine: python -m {HARNESS}"
        )
    command = [sys.executable, "-m", HARNESS, "--dataset_name", dataset, "--run_id", run_id]
    command += ["--predictions_path", str(predictions_file), *options]
    return subprocess.run(command, check=False).returncode
