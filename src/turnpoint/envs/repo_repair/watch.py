"""Look after a running sandbox: feed it, keep the beginning of its output, and end it when it goes too far."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from turnpoint.envs.repo_repair.settings import SandboxSettings

_LOOK = 0.05
"""Seconds between two looks at the memory."""
_PATIENCE = 5.0
"""Seconds that the end of an ended sandbox is waited for."""
_REPORT = 32 << 20
"""Most bytes of a report; more is a program that floods it."""
_PART = 1 << 16


@dataclass(slots=True)
class Seen:
    """What was seen of a sandbox."""

    code: int | None = None
    output: bytearray = field(default_factory=bytearray)
    report: bytearray = field(default_factory=bytearray)
    dropped: int = 0
    ended: str = ""


def watch(
    process: subprocess.Popen[bytes], sent: bytes, report: int, settings: SandboxSettings, seconds: float
) -> Seen:
    """See ``process`` to its end; every pipe is closed and no process of it is left."""
    assert process.stdin is not None
    assert process.stdout is not None
    seen, deadline = Seen(), time.monotonic() + seconds
    fed, out = process.stdin.fileno(), process.stdout.fileno()
    left, looked = memoryview(sent), 0.0
    with selectors.DefaultSelector() as selector:
        os.set_blocking(fed, False)
        selector.register(fed, selectors.EVENT_WRITE)
        for source in (out, report):
            selector.register(source, selectors.EVENT_READ)
        while len(selector.get_map()) > (fed in selector.get_map()):
            for key, _ in selector.select(_LOOK):
                if key.fd == fed:
                    left = _feed(fed, left)
                    if not left:
                        selector.unregister(fed)
                        process.stdin.close()
                elif not _take(key.fd, seen, settings, is_report=key.fd == report):
                    selector.unregister(key.fd)
            now = time.monotonic()
            if now > deadline:
                seen.ended = "time"
            elif len(seen.report) >= _REPORT:
                seen.ended = "report"
            elif now > looked + _LOOK:
                looked = now
                seen.ended = "memory" if memory_of(process.pid) > settings.memory_mb << 20 else ""
            if seen.ended:
                break
    _end(process, kill=bool(seen.ended), deadline=deadline, seen=seen)
    seen.code = None if seen.ended else process.returncode
    os.close(report)
    return seen


def _feed(fed: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fed, left[:_PART]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def _take(source: int, seen: Seen, settings: SandboxSettings, *, is_report: bool) -> bool:
    """Read once; False at the end."""
    part = os.read(source, _PART)
    kept, limit = (seen.report, _REPORT) if is_report else (seen.output, settings.output_kb << 10)
    room = max(0, limit - len(kept))
    kept += part[:room]
    seen.dropped += 0 if is_report else len(part) - min(room, len(part))
    return bool(part)


def memory_of(pid: int) -> int:
    """Bytes of anonymous memory of a process and all below it."""
    total, waiting = 0, [pid]
    while waiting:
        number = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{number}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    total += int(line.split()[1]) << 10
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def _end(process: subprocess.Popen[bytes], *, kill: bool, deadline: float, seen: Seen) -> None:
    """Wait for the end, or bring it about: the namespace's first process takes all the others along."""
    if not kill:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            seen.ended = "time"
    if seen.ended:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
