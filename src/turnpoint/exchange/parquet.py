"""Parquet: one episode a row, as ``datasets.load_dataset("parquet", ...)`` reads it; needs pyarrow.

Columns for looking (id, task, outcome, messages) and one, ``episode``, that holds the whole record as JSON, so that
nothing is lost on the way back. Files of others need a ``messages`` column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange import chat
from turnpoint.exchange.lines import Json, count_unused, episodes, exported
from turnpoint.exchange.messages import conversation
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode, RecordError, episode_from_dict, episode_to_dict

_BATCH = 256
_COLUMNS = ("id", "env", "task_id", "task_type", "step", "success", "reward", "turns", "stop_reason", "messages",
            "episode")  # fmt: skip


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise RecordError(
            "pyarrow is not installed; Parquet needs it: pip install 'turnpoint[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of a file, batch by batch. Raises ``RecordError`` if it has neither of the columns."""
    _, parquet = _arrow()
    try:
        file = parquet.ParquetFile(path)
    except Exception as error:  # pyarrow raises its own kinds for files that are none
        raise RecordError(f"{path} is no Parquet file: {error}") from error
    names = set(file.schema_arrow.names)
    if not names & {"episode", "messages"}:
        raise RecordError(
            f"{path} has neither an 'episode' nor a 'messages' column, but {', '.join(sorted(names))}"
        )

    def rows() -> Iterator[tuple[str, Json]]:
        number = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield f"{path.name}:{number}", row

    def convert(where: str, row: Json) -> list[Episode]:
        if isinstance(row.get("episode"), str):
            count_unused(row, _COLUMNS, report)
            return [episode_from_dict(json.loads(row["episode"]))]
        plain = json.loads(json.dumps(row, default=str))  # times and bytes, which JSON has no form for
        return [chat.convert(where, plain, report, source="parquet")]

    return episodes(rows(), report, convert)


def write(found: Iterable[Episode], path: Path, report: ExchangeReport) -> None:
    """One episode a row, written in batches."""
    arrow, parquet = _arrow()
    message = arrow.struct([("role", arrow.string()), ("content", arrow.string())])
    schema = arrow.schema(
        [
            ("id", arrow.string()),
            ("env", arrow.string()),
            ("task_id", arrow.string()),
            ("task_type", arrow.string()),
            ("step", arrow.int64()),
            ("success", arrow.bool_()),
            ("reward", arrow.float64()),
            ("turns", arrow.int64()),
            ("stop_reason", arrow.string()),
            ("messages", arrow.list_(message)),
            ("episode", arrow.large_string()),
        ]
    )
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        batch: list[Json] = []
        for row, _ in exported(found, _row, report):
            batch.append(row)
            if len(batch) == _BATCH:
                writer.write_table(arrow.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(arrow.Table.from_pylist(batch, schema))


def _row(episode: Episode) -> Json:
    return {
        "id": episode.id,
        "env": episode.task.env,
        "task_id": episode.task.id,
        "task_type": episode.task.type,
        "step": episode.step,
        "success": episode.success,
        "reward": episode.total_reward,
        "turns": len(episode.turns),
        "stop_reason": episode.stop.value if episode.stop else None,
        "messages": conversation(episode) if episode.turns else [],
        "episode": json.dumps(episode_to_dict(episode), ensure_ascii=False, allow_nan=False),
    }
