"""Logs of Inspect (inspect_ai): ``.eval`` (a zip of JSON) and JSON, one sample an episode."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import turnpoint
from turnpoint.exchange.lines import Json, episodes
from turnpoint.exchange.messages import conversation, episode_of, number
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, RecordError

_MOST_BYTES = 512_000_000
"""Size of one unpacked member that is still read."""
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def matches(record: Json) -> bool:
    """The head of a log in JSON."""
    return isinstance(record.get("eval"), dict) and "status" in record and "version" in record


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a log. Raises ``RecordError`` if it is none."""
    source = _json_samples(path, report) if path.suffix == ".json" else _zip_samples(path, report)
    return episodes(source, report, lambda where, sample: [convert(where, sample, report)])


def _json_samples(path: Path, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    try:
        log = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not JSON: {error}") from error
    samples = log.get("samples") if isinstance(log, dict) else None
    for place, sample in enumerate(samples or [], start=1):
        yield from _checked(f"{path.name}:{place}", sample, _task(log), report)


def _zip_samples(path: Path, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise RecordError(f"{path} is no Inspect log: {error}") from error
    with archive:
        names = archive.namelist()
        head = next((n for n in ("header.json", "_journal/start.json") if n in names), None)
        task = _task(_member(archive, head, report)) if head else ""
        for name in sorted(n for n in names if n.startswith("samples/") and n.endswith(".json")):
            yield from _checked(f"{path.name}:{name}", _member(archive, name, report), task, report)


def _member(archive: zipfile.ZipFile, name: str, report: ExchangeReport) -> Any:
    """The JSON of a member; None, and a count, where it is too large, damaged or none."""
    if archive.getinfo(name).file_size > _MOST_BYTES:
        report.drop("sample larger than can be read", name)
        return None
    try:
        return json.loads(archive.read(name))
    except (ValueError, RecursionError, zipfile.BadZipFile, OSError, NotImplementedError) as error:
        report.drop(f"not readable: {type(error).__name__}", name)
        return None


def _task(log: Any) -> str:
    spec = log.get("eval") if isinstance(log, Mapping) else None
    return str(spec.get("task") or "") if isinstance(spec, Mapping) else ""


def _checked(where: str, sample: Any, task: str, report: ExchangeReport) -> Iterator[tuple[str, Json]]:
    if isinstance(sample, dict):
        yield where, {"_task": task, **sample}
    elif sample is not None:
        report.drop("not a JSON object", where)


def convert(where: str, sample: Json, report: ExchangeReport) -> Episode:
    """One sample. Raises ``ValueError`` if it has no messages."""
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("no messages")
    own = sample.get("metadata", {}).get("turnpoint") if isinstance(sample.get("metadata"), dict) else None
    own = own if isinstance(own, dict) else {}
    score = _score(sample.get("scores"))
    limit = sample.get("limit")
    stop = str(limit.get("type", "limit")) + " limit" if isinstance(limit, Mapping) else ""
    attachments = sample.get("attachments") if isinstance(sample.get("attachments"), dict) else {}
    epoch = sample.get("epoch", 1)
    task = str(own.get("task") or f"{sample['_task']}/{sample.get('id', where)}")
    episode = episode_of(
        str(own.get("id") or f"{task}/{epoch}"),
        [_expanded(m, attachments or {}) for m in messages],
        report,
        env=str(own.get("env") or sample["_task"] or "inspect"),
        task=task,
        kind=str(own.get("type") or ""),
        reward=score,
        success=own.get("success") if isinstance(own.get("success"), bool) else None,
        stop=str(own.get("stop") or stop),
        info={"source": "inspect"},
    )
    error = sample.get("error")
    if error:
        episode.error = str(error.get("message", error) if isinstance(error, Mapping) else error)[:2000]
    return episode


def _expanded(message: Any, attachments: Mapping[str, Any]) -> Any:
    """Long texts stand beside the messages, under ``attachment://`` names."""
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return message
    content = message["content"]
    if content.startswith("attachment://"):
        found = attachments.get(content.removeprefix("attachment://"))
        if isinstance(found, str):
            return {**message, "content": found}
    return message


def _score(scores: Any) -> float | None:
    """The value of the first scorer: a number, or C, P, I, N."""
    if not isinstance(scores, Mapping) or not scores:
        return None
    first = next(iter(scores.values()))
    value = first.get("value") if isinstance(first, Mapping) else first
    return _VALUES[value] if isinstance(value, str) and value in _VALUES else number(value)


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """A log that Inspect's viewer opens: ``.eval``, or JSON for another ending."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    samples: list[Json] = []
    envs: list[str] = []
    for episode in found:
        if not episode.turns:
            report.drop("no turns", episode.id)
            continue
        report.episodes += 1
        samples.append(_sample(episode, len(samples) + 1, now))
        envs.append(episode.task.env)
    log = _header(samples, envs, now)
    if path.suffix != ".eval":
        path.write_text(json.dumps({**log, "samples": samples}, ensure_ascii=False), encoding="utf-8")
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {"version": 2, "eval": log["eval"], "plan": log["plan"]}
        archive.writestr("_journal/start.json", json.dumps(start))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample, ensure_ascii=False))
        archive.writestr("summaries.json", json.dumps([_summary(s) for s in samples]))
        archive.writestr("header.json", json.dumps(log))


def _header(samples: list[Json], envs: list[str], now: str) -> Json:
    name = envs[0] if envs else "turnpoint"
    ids = [sample["id"] for sample in samples]
    spec = {
        "run_id": "turnpoint",
        "created": now,
        "task": name,
        "task_id": name,
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "dataset": {"name": name, "samples": len(ids), "sample_ids": ids, "shuffled": False},
        "model": "turnpoint/policy",
        "model_args": {},
        "config": {"epochs": 1},
        "packages": {"turnpoint": turnpoint.__version__},
    }
    solved = [sample["scores"]["success"]["value"] == "C" for sample in samples]
    accuracy = sum(solved) / len(solved) if solved else 0.0
    metrics: Json = {"accuracy": {"name": "accuracy", "value": accuracy, "options": {}}}
    results = {
        "total_samples": len(ids),
        "completed_samples": len(ids),
        "scores": [{"name": "success", "scorer": "success", "params": {}, "metrics": metrics}],
    }
    plan = {"name": "plan", "steps": [], "config": {}}
    stats = {"started_at": now, "completed_at": now, "model_usage": {}}
    return {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": results, "stats": stats}


def _sample(episode: Episode, place: int, now: str) -> Json:
    messages = [{**m, "source": "input"} if m["role"] == "user" else m for m in conversation(episode)]
    first = next((m["content"] for m in messages if m["role"] == "user"), "")
    last = episode.turns[-1].response or episode.turns[-1].executed
    choice = {"message": {"role": "assistant", "content": last}, "stop_reason": "stop"}
    task = episode.task
    return {
        "id": place,
        "epoch": 1,
        "input": first,
        "target": "",
        "messages": messages,
        "output": {"model": "turnpoint/policy", "choices": [choice], "completion": last},
        "scores": {
            "success": {"value": "C" if episode.success else "I", "answer": last[:200], "metadata": {}}
        },
        "metadata": {
            "turnpoint": {
                "id": episode.id,
                "env": task.env,
                "task": task.id,
                "type": task.type,
                "success": episode.success,
                "reward": episode.total_reward,
                "stop": episode.stop.value if episode.stop else "",
            }
        },
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
    }


def _summary(sample: Json) -> Json:
    return {k: sample[k] for k in ("id", "epoch", "input", "target", "scores", "metadata")} | {
        "completed": True
    }
