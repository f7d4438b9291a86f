"""verl's rollout and validation dumps: ``input``, ``output``, ``score``, ``step`` a line, conversations as text.

The text is split into messages where the chat template's role marks stand (ChatML, with or without its special
tokens, and Llama 3); tool answers in between become observations. Text without marks is one turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnpoint.exchange.lines import Json, count_unused, episodes, records
from turnpoint.exchange.messages import episode_of, first_number, outcome
from turnpoint.exchange.report import ExchangeReport
from turnpoint.records import Episode

_CHATML = re.compile(r"<\|im_start\|>(system|user|assistant|tool|developer)\n")
_LLAMA = re.compile(r"<\|start_header_id\|>(system|user|assistant|tool|ipython)<\|end_header_id\|>\n*")
_PLAIN = re.compile(r"^(system|user|assistant|tool)\n", re.M)
_ENDS = re.compile(r"<\|(?:im_end|eot_id|eom_id|endoftext|begin_of_text|end_of_text)\|>")
_KNOWN = {"input", "output", "score", "step", "gts", "acc", "request_id", "uid", "data_source"}


def matches(record: Json) -> bool:
    """Two texts and a score."""
    return (
        isinstance(record.get("input"), str) and isinstance(record.get("output"), str) and "score" in record
    )


def read(path: Path, report: ExchangeReport) -> Iterator[Episode]:
    """Episodes of one dump."""

    def convert(where: str, record: Json) -> list[Episode]:
        if not matches(record):
            raise ValueError("no input, output and score")
        messages = split(record["input"], record["output"])
        score = first_number((record["score"],))
        truth = record.get("gts")
        extra = {
            k: v for k, v in record.items() if k not in _KNOWN and isinstance(v, str | int | float | bool)
        }
        count_unused(record, _KNOWN | extra.keys(), report)
        return [
            episode_of(
                str(record.get("request_id") or record.get("uid") or where),
                messages,
                report,
                env="verl",
                task=_task(record),
                kind=str(record.get("data_source") or ""),
                reward=score,
                success=outcome(record.get("acc"), report),
                step=record["step"] if isinstance(record.get("step"), int) else 0,
                data={} if truth in (None, "") else {"gts": truth},
                info={"source": "verl", **extra},
            )
        ]

    return episodes(records(path, report), report, convert)


def _task(record: Json) -> str:
    """Equal prompts are the same task, as in a group of samples."""
    import hashlib

    return "verl-" + hashlib.blake2b(record["input"].encode("utf-8", "replace"), digest_size=6).hexdigest()


def split(prompt: str, output: str) -> list[Json]:
    """Messages of a prompt's text and of what followed it."""
    before, mark = _messages(prompt)
    if before and before[-1]["role"] == "assistant" and not before[-1]["content"].strip():
        before.pop()  # the header that asks for the reply
    if not before:
        before = [{"role": "user", "content": _clean(prompt)}]
    if mark is None:
        mark = next((m for m in (_CHATML, _LLAMA, _PLAIN) if m.search(output)), None)
    if mark is None:
        return [*before, {"role": "assistant", "content": _clean(output)}]
    starts = list(mark.finditer(output))
    head = output[: starts[0].start()] if starts else output
    after = [{"role": "assistant", "content": _clean(head)}] if _clean(head) or not starts else []
    return [*before, *after, *_parts(output, starts)]


def _messages(text: str) -> tuple[list[Json], re.Pattern[str] | None]:
    for mark in (_CHATML, _LLAMA, _PLAIN):
        starts = list(mark.finditer(text))
        if starts and (mark is not _PLAIN or starts[0].start() == 0):
            return _parts(text, starts), mark
    return [], None


def _parts(text: str, starts: list[re.Match[str]]) -> list[Json]:
    ends = [*(m.start() for m in starts[1:]), len(text)][: len(starts)]
    found: list[dict[str, Any]] = []
    for start, end in zip(starts, ends, strict=True):
        role = "tool" if start[1] == "ipython" else start[1]
        found.append({"role": role, "content": _clean(text[start.end() : end])})
    return found


def _clean(text: str) -> str:
    return _ENDS.sub("", text).strip("\n")
