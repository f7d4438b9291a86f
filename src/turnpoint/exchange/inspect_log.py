"""Logs of Inspect (inspect_ai): ``.eval`` (a zip of JSON) and JSON, one sample an episode."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import turnpoint
from turnpoint.exchange.inspect_events import branch_events, read_fork
from turnpoint.exchange.lines import Json, count_unused, episodes, exported, loads
from turnpoint.exchange.messages import conversation, episode_of, first_number, number, outcome
from turnpoint.exchange.own import headline, remainder, restored
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, RecordError

_MOST_BYTES = 512_000_000
"""Size of one unpacked member that is still read."""
_USED = {"_task", "id", "epoch", "uuid", "input", "target", "messages", "output", "scores", "metadata", "events",
         "events_data", "attachments", "error", "limit", "total_time"}  # fmt: skip
_ATTACHMENT = "attachment://"
_ROLES = {"developer": "system", "function": "tool"}
"""Roles that Inspect does not know, and those it has for them."""
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
        log = loads(path.read_bytes(), report)
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
        samples = (n for n in names if n.startswith("samples/") and n.endswith(".json"))
        for name in sorted(samples, key=_natural):
            yield from _checked(f"{path.name}:{name}", _member(archive, name, report), task, report)


def _natural(name: str) -> list[tuple[int, str]]:
    """The key that sorts sample 10 behind sample 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _member(archive: zipfile.ZipFile, name: str, report: ExchangeReport) -> Any:
    """The JSON of a member; None, and a count, where it is too large, damaged or none."""
    if archive.getinfo(name).file_size > _MOST_BYTES:
        report.drop("sample larger than can be read", name)
        return None
    try:
        return loads(archive.read(name), report)
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
    metadata = sample.get("metadata") if isinstance(sample.get("metadata"), dict) else {}
    others = dict(metadata or {})
    own = others.pop("turnpoint", None)
    own = own if isinstance(own, dict) else {}
    count_unused(sample, _USED, report)
    score, scores = _scores(sample.get("scores"), report)
    limit, error = sample.get("limit"), sample.get("error")
    stop = f"{limit.get('type')}_limit" if isinstance(limit, dict) else ""
    attachments = sample.get("attachments") if isinstance(sample.get("attachments"), dict) else {}
    task = str(own.get("task") or f"{sample.get('_task', '')}/{sample.get('id', where)}")
    told = {"target": sample.get("target"), "metadata": others}
    reward = number(own.get("reward"))
    episode = episode_of(
        str(own.get("id") or f"{task}/{sample.get('epoch', 1)}"),
        [_expanded(m, attachments or {}, report) for m in messages],
        report,
        env=str(own.get("env") or sample.get("_task") or "inspect"),
        task=task,
        kind=str(own.get("type") or ""),
        reward=score if reward is None else reward,
        success=outcome(own.get("success"), report),
        stop=str(own.get("stop") or stop),
        error=str(error.get("message", error) if isinstance(error, dict) else error or ""),
        data={name: value for name, value in told.items() if value not in (None, "", [], {})},
        info={"source": "inspect", **({"scores": scores} if scores else {})},
    )
    episode.forked_from = read_fork(sample.get("events"), report)
    episode.seconds = number(sample.get("total_time")) or 0.0
    return restored(episode, own.get("rest"), report)


def _expanded(value: Any, attachments: Mapping[str, Any], report: ExchangeReport) -> Any:
    """A message with its long texts, which stand beside the messages under ``attachment://`` names."""
    if isinstance(value, dict):
        return {name: _expanded(item, attachments, report) for name, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, attachments, report) for item in value]
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        found = attachments.get(value.removeprefix(_ATTACHMENT))
        if isinstance(found, str):
            return found
        report.changed["text of an attachment that is missing"] += 1
    return value


def _scores(scores: Any, report: ExchangeReport) -> tuple[float | None, Json]:
    """The first score that is a number or C, P, I, N; and all values where that one does not say everything."""
    if not isinstance(scores, dict):
        return None, {}
    values: Json = {}
    for name, score in scores.items():
        values[name] = score.get("value") if isinstance(score, dict) else score
        if isinstance(score, dict) and score.get("explanation"):
            report.changed["explanation of a score"] += 1
    plain = [_VALUES.get(v) if isinstance(v, str) else number(v) for v in values.values()]
    first = first_number(plain)
    return first, values if len(plain) > 1 or first is None else {}


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """A log that Inspect's viewer opens: ``.eval``, or JSON for another ending."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    samples: list[Json] = []
    for sample, _ in exported(found, lambda episode: _sample(episode, len(samples) + 1, now), report):
        samples.append(sample)
    log = _header(samples, now)
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


def _header(samples: list[Json], now: str) -> Json:
    name = samples[0]["metadata"]["turnpoint"]["env"] if samples else "turnpoint"
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
    values = [sample["scores"]["success"]["value"] for sample in samples]
    known = [value == "C" for value in values if value != "N"]
    accuracy = sum(known) / len(known) if known else 0.0
    metrics: Json = {"accuracy": {"name": "accuracy", "value": accuracy, "options": {}}}
    results = {
        "total_samples": len(ids),
        "completed_samples": sum("error" not in sample for sample in samples),
        "scores": [
            {
                "name": "success",
                "scorer": "success",
                "scored_samples": len(known),
                "unscored_samples": len(values) - len(known),
                "params": {},
                "metrics": metrics,
            }
        ],
    }
    plan = {"name": "plan", "steps": [], "config": {}}
    stats = {"started_at": now, "completed_at": now, "model_usage": {}}
    return {"version": 2, "status": "success", "eval": spec, "plan": plan, "results": results, "stats": stats}


def _sample(episode: Episode, place: int, now: str) -> Json:
    messages = [{**m, "role": _ROLES.get(m["role"], m["role"])} for m in conversation(episode)]
    messages = [{**m, "source": "input"} if m["role"] == "user" else m for m in messages]
    first = next((m["content"] for m in messages if m["role"] == "user"), "")
    last = episode.turns[-1].response or episode.turns[-1].executed
    choice = {"message": {"role": "assistant", "content": last}, "stop_reason": "stop"}
    # N is Inspect's "no answer": without an outcome an episode is neither right nor wrong, and not in the accuracy
    value = "N" if episode.success is None else "C" if episode.success else "I"
    own = headline(episode) | {"reward": episode.total_reward}
    error = {"message": episode.error, "traceback": episode.error, "traceback_ansi": episode.error}
    sample: Json = {
        "id": place,
        "epoch": 1,
        "input": first,
        "target": "",
        "messages": messages,
        "output": {"model": "turnpoint/policy", "choices": [choice], "completion": last},
        "scores": {"success": {"value": value, "answer": last[:200], "metadata": {}}},
        "metadata": {"turnpoint": own},
        "store": {},
        "events": [] if episode.forked_from is None else branch_events(episode.forked_from, now),
        "model_usage": {},
        "attachments": {},
        "total_time": round(episode.seconds, 4),
        **({"error": error} if episode.error else {}),
    }
    own["rest"] = remainder(convert("", sample, ExchangeReport()), episode)
    return sample


def _summary(sample: Json) -> Json:
    shown = {name: sample[name] for name in ("id", "epoch", "input", "target", "scores", "metadata")}
    return shown | {"completed": True} | ({"error": sample["error"]["message"]} if "error" in sample else {})
