"""``turnpoint fork`` asked turn by turn, on a real terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnpoint.records import Episode, EpisodeWriter, read_episodes
from turnpoint.testing import play_actions, toy_suite
from turnpoint.testing.toy_env import KIND as TOY

PLAYER = """
from turnpoint.policy.settings import PolicySettings
from turnpoint.testing.scripted_policy import ScriptedPolicy


class Waits(PolicySettings):
    kind: str = "player:Waits"

    def prepare(self, suite, prompter, *, cache, seed):
        return self

    def build(self, *, seed):
        return ScriptedPolicy(lambda prompt, seed: "<action>wait</action>")
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the corridor game with one failed episode."""
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "player.py").write_text(PLAYER)
    config = {
        "env": {"kind": TOY, "max_turns": 6},
        "policy": {"kind": "player:Waits"},
        "method": {"kind": "grpo"},
        "loggers": [],
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    suite = toy_suite(max_turns=6)
    with EpisodeWriter(folder / "eval" / "step_000001.jsonl") as writer:
        writer.write(play_actions(suite.make(), suite.tasks("valid")[0], ["wait"] * 6, snapshots=False))
    return folder


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, run: Path, *arguments: str) -> None:
        self.main, inner = pty.openpty()
        path = os.pathsep.join([str(run.parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "turnpoint.cli", "fork", str(run), *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "PYTHONPATH": path, "TERM": "dumb", "COLUMNS": "200"},
        )
        os.close(inner)
        self.seen = ""

    def until(self, words: str, seconds: float = 60) -> str:
        """What was printed up to ``words``, which must come."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, f"'{words}' did not come; seen: {self.seen}"
            if select.select([self.main], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.main, 65536).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert words in self.seen, f"it ended without '{words}': {self.seen}"
        before, _, self.seen = self.seen.partition(words)
        return before

    def say(self, text: str) -> None:
        os.write(self.main, f"{text}\n".encode())

    def interrupt(self, words: str) -> None:
        """Ctrl-C, and again where the first one fell between the prompt and the wait for a line."""
        for seconds in (10, 60):
            self.process.send_signal(signal.SIGINT)
            try:
                self.until(words, seconds)
            except AssertionError:
                if seconds == 60:
                    raise
            else:
                return

    def end(self) -> int:
        code = self.process.wait(60)
        os.close(self.main)
        return code


def parent(run: Path) -> Episode:
    return read_episodes(run / "eval" / "step_000001.jsonl")[0]


def test_every_kind_of_turn_by_hand(run: Path) -> None:
    terminal = Terminal(run, "--episode", parent(run).id, "--turn", "1", "--initial")
    shown = terminal.until("> ")
    assert "--- turn 1 ---" in shown
    assert "recorded: wait" in shown
    terminal.say("go right")
    assert "did: go right" in terminal.until("> ")
    terminal.say("+")
    assert "did: wait" in terminal.until("> ")
    terminal.say("!")
    assert "did: " in terminal.until("> ")
    terminal.say("")
    terminal.until(".forks.jsonl")
    assert terminal.end() == 0
    (branch,) = read_episodes(run / "eval" / "step_000001.forks.jsonl")
    assert [turn.executed for turn in branch.turns][:3] == ["wait", "go right", "wait"]
    assert branch.forked_from is not None
    assert (branch.forked_from.episode, branch.forked_from.turn) == (parent(run).id, 1)


def test_stopping_saves_nothing(run: Path) -> None:
    terminal = Terminal(run, "--episode", parent(run).id, "--turn", "0", "--initial")
    terminal.until("> ")
    terminal.say("q")
    terminal.until("nothing was saved")
    assert terminal.end() == 0
    assert not (run / "eval" / "step_000001.forks.jsonl").exists()


@pytest.mark.parametrize("how", ["ctrl-c", "ctrl-d"])
def test_the_keys_that_end_programs_stop_at_once_and_save_nothing(run: Path, how: str) -> None:
    terminal = Terminal(run, "--episode", parent(run).id, "--turn", "0", "--initial")
    terminal.until("> ")
    if how == "ctrl-c":
        terminal.interrupt("nothing was saved")
    else:
        os.write(terminal.main, b"\x04")
        terminal.until("nothing was saved")
    assert terminal.end() == 0
    assert not (run / "eval" / "step_000001.forks.jsonl").exists()


def test_an_oracle_that_is_not_there_is_said_and_asked_for_another_turn(run: Path) -> None:
    config = json.loads((run / "config.yaml").read_text())
    config["env"]["oracle"] = False
    (run / "config.yaml").write_text(json.dumps(config))
    terminal = Terminal(run, "--episode", parent(run).id, "--turn", "1", "--initial")
    terminal.until("> ")
    terminal.say("!")
    assert "has no oracle to take turns" in terminal.until("> ")
    terminal.say("q")
    terminal.until("nothing was saved")
    assert terminal.end() == 0


def test_an_action_that_is_not_admissible_is_a_turn_like_the_models(run: Path) -> None:
    terminal = Terminal(run, "--episode", parent(run).id, "--turn", "5", "--initial")
    terminal.until("> ")
    terminal.say("fly to the moon")
    terminal.until("it is over")
    terminal.until(".forks.jsonl")
    assert terminal.end() == 0
    (branch,) = read_episodes(run / "eval" / "step_000001.forks.jsonl")
    assert not branch.success
