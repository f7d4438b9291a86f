"""First program in the sandbox: unpack the tree, set the limits, run the tests. Standard library only.

It runs where nothing of this package can be imported. The order comes over standard input: a line of JSON, then the
bytes of the files. What happened to each test goes to a pipe of its own, line by line, under a word that the code
under test is not told.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

ROOT = "/repo"
_PATIENCE = 20
"""Seconds of wall clock for a second of CPU time: a busy machine must not look like a slow test."""


def main() -> None:
    """Do what the order says."""
    source = sys.stdin.buffer
    order = json.loads(source.readline())
    for path, size, mode in order["files"]:
        write(path, source.read(size), mode)
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    os.close(quiet)
    os.chdir(ROOT)
    for name, value in order["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    if order["command"]:
        os.execv(order["command"][0], order["command"])
    os.set_inheritable(order["channel"], False)
    if order["variants"]:
        one_by_one(order)
    else:
        run(order, Channel(order))
    os._exit(0)  # threads and exit handlers of the code under test are not waited for


def write(path: str, data: bytes, mode: str = "") -> None:
    """Put one file into the tree."""
    place = Path(ROOT, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if mode == "link":
        place.symlink_to(os.fsdecode(data))
        return
    place.write_bytes(data)
    if mode == "run":
        place.chmod(0o755)


class Channel:
    """Sends facts; keeps its word to itself."""

    def __init__(self, order: dict[str, Any], **always: Any) -> None:
        word, place, send = order.pop("word"), order["channel"], os.write

        def say(**facts: Any) -> None:
            send(place, (json.dumps([word, {**always, **facts}]) + "\n").encode())

        self.say = say


class Reporter:
    """Plugin of pytest that reports each phase of each test."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            text = str(report.longrepr)[:20000]
            self.channel.say(id=report.nodeid, when="collect", outcome="failed", text=text)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.channel.say(
            id=report.nodeid,
            when=report.when,
            outcome=report.outcome,
            text=report.longreprtext[:20000] if report.failed else "",
            xfail=hasattr(report, "wasxfail"),
        )


def run(order: dict[str, Any], channel: Channel) -> None:
    """Run pytest once."""
    import pytest

    lines: set[tuple[str, int]] = set()

    def follow(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(ROOT):
            return None
        lines.add((name[len(ROOT) + 1 :], frame.f_lineno))
        return follow

    if order["trace"]:
        sys.settrace(follow)
    code = pytest.main(order["arguments"], plugins=[Reporter(channel)])
    sys.settrace(None)
    if order["trace"]:
        channel.say(lines=sorted(lines))
    channel.say(end=int(code), cpu=time.process_time())


def one_by_one(order: dict[str, Any]) -> None:
    """Run pytest for each variant of some files, in a process each that begins with pytest already imported."""
    import pytest  # noqa: F401

    order["trace"] = False
    for number, variant in enumerate(order["variants"]):
        before = {path: read(path) for path in variant}
        for path, text in variant.items():
            write(path, text.encode("utf-8", "surrogateescape"))
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            limit_cpu(order["cpu_each"])
            run(order, Channel(order, variant=number))
            os._exit(0)
        wait(child, _PATIENCE * order["cpu_each"])
        for path, data in before.items():
            write(path, data)


def limit_cpu(seconds: float) -> None:
    """End this process by signal after so much more CPU time, whatever else the machine is busy with."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def read(path: str) -> bytes:
    """One file of the tree."""
    return Path(ROOT, path).read_bytes()


def wait(child: int, seconds: float) -> None:
    """Wait for a process, and end it and what it started if it takes too long."""
    deadline = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(0.002)


if __name__ == "__main__":
    main()
