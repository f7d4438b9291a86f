"""Rows as SkyRL trains on: from JSONL files, or generated sums in gsm8k's format."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.seeded import seed_of, split_of

ASK = 'Let\'s think step by step and output the final answer after "####".'
_THINGS = ("apples", "books", "coins", "marbles", "stamps", "tickets")
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")


def generated(split: str, number: int) -> dict[str, Any]:
    """Row ``number`` of a split; no problem is in both splits."""
    draw = random.Random(f"skyrl/{seed_of(split, number)}")
    while True:
        name, thing = draw.choice(_NAMES), draw.choice(_THINGS)
        has, gets, gives = draw.randint(10, 99), draw.randint(2, 40), draw.randint(2, 9)
        question = f"{name} has {has} {thing}, gets {gets} more and gives {gives} away. How many are left?"
        if split_of(question) == split:
            break
    return {
        "prompt": [{"role": "user", "content": f"{question} {ASK}"}],
        "reward_spec": {"method": "rule", "ground_truth": str(has + gets - gives)},
        "extra_info": {"split": split, "index": number},
    }


class Rows:
    """The rows of a file, read once, with the hash of what was read."""

    def __init__(self, path: str, setting: str) -> None:
        """Raises ``EnvDataError`` if the file is missing, or a line is no row."""
        source = Path(path).expanduser()
        try:
            raw = source.read_bytes()
        except OSError as error:
            raise EnvDataError(f"{setting} is {path}, which cannot be read: {error.strerror}") from error
        self.sha256 = hashlib.sha256(raw).hexdigest()
        self.rows = [
            self._row(line, f"{path}, line {number}")
            for number, line in enumerate(raw.split(b"\n"), start=1)
            if line.strip()
        ]
        if not self.rows:
            raise EnvDataError(f"{setting} is {path}, which holds no row")

    @staticmethod
    def _row(line: bytes, where: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise EnvDataError(f"{where} is not JSON: {error}") from error
        prompt = row.get("prompt") if isinstance(row, dict) else None
        if not isinstance(prompt, list) or not all(_is_message(message) for message in prompt) or not prompt:
            raise EnvDataError(f"{where} has no 'prompt' that is a list of messages with role and content")
        found: dict[str, Any] = row
        return found


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))
