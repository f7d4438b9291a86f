"""A process of its own for code that may hang, crash or print: engines and checkers of untrusted text.

The parent asks one call at a time, as a line of JSON, and waits a limited time. A child that does not answer is killed
and one that died is made anew, so a call costs at most itself.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import IO, Any

from turnpoint.envs.family import Starving
from turnpoint.envs.protocol import EnvError

_START_SECONDS = 120.0
"""Importing a heavy engine on a busy machine takes its time."""
_SHOWN = 400
REASONS = ("hung", "crashed", "memory")
"""Why a process is replaced."""


class ChildHung(EnvError):
    """A call took longer than it may; its process was killed."""


class ChildCrashed(EnvError):
    """The process ended in the middle of a call."""


class Child:
    """A process that serves one object; safe to call from several threads, which then wait for each other."""

    def __init__(
        self, target: str, seconds: float, *, memory_mb: int | None = None, resident_mb: int | None = None
    ) -> None:
        """``target``: ``module:attr`` of a callable without arguments that gives the served object.

        ``seconds``: longest call, waiting for a processor apart; ``memory_mb``: address space the process may have,
        beyond which its allocations fail. ``resident_mb``: memory in use above which it is ended after a call, and made
        anew for the next: against what leaks. Nothing starts before the first call.
        """
        self.target, self.seconds, self.memory_mb, self.resident_mb = target, seconds, memory_mb, resident_mb
        self.lost: Counter[str] = Counter()
        """Processes that had to be replaced, by reason (``REASONS``)."""
        self.generation = 0
        """Number of processes started so far: what a caller knows of an older one is gone."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._resident = 0
        self._end: weakref.finalize[..., Any] | None = None

    def call(self, method: str, *arguments: Any, seconds: float | None = None) -> Any:
        """``object.method(*arguments)`` in the process; arguments and answer are plain JSON values.

        Raises ``ChildHung``, ``ChildCrashed``, or ``EnvError`` with the text of what the method raised.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            try:
                return self._ask({"method": method, "arguments": arguments}, seconds or self.seconds)
            finally:
                self._end_if_grown()

    def close(self) -> None:
        """End the process; a later call starts another one."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        self._stop()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in _stop)
        process = subprocess.Popen(
            [sys.executable, "-c", "from turnpoint.envs.child import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # so that what it starts can be ended with it
        )
        self._process, self._errors = process, errors
        self._end = weakref.finalize(self, _end, process)
        self.generation += 1
        try:
            self._ask({"target": self.target, "memory_mb": self.memory_mb}, _START_SECONDS)
        except EnvError:  # it serves nothing: the next call must not ask it
            self._stop()
            raise

    def _ask(self, message: dict[str, Any], seconds: float) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout.fileno(), seconds, Starving(process.pid))
        except BrokenPipeError:
            line = b""
        except TimeoutError:
            self.lost["hung"] += 1
            self._stop()
            raise ChildHung(f"{self._name(message)} took longer than {seconds:g} s and was ended") from None
        except BaseException:  # an interrupt in the middle of an answer: the next one would be misread
            self._stop()
            raise
        if not line:
            self.lost["crashed"] += 1
            raise ChildCrashed(f"the process of {self._name(message)} ended {self._epitaph()}")
        answer = json.loads(line)
        self._resident = int(answer.get("resident", 0))
        if "error" in answer:
            raise EnvError(f"{self._name(message)}: {answer['error']}")
        return answer["value"]

    def _end_if_grown(self) -> None:
        """End a process that holds more than it may; what it answered counts."""
        if (
            self._process is not None
            and self.resident_mb is not None
            and self._resident > self.resident_mb << 20
        ):
            self.lost["memory"] += 1
            self._stop()

    def _name(self, message: dict[str, Any]) -> str:
        return f"{self.target.rpartition(':')[2]}.{message.get('method', 'start')}"

    def _epitaph(self) -> str:
        """How the process ended, and the last words it wrote."""
        assert self._process is not None
        assert self._errors is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _SHOWN))
        words = self._errors.read().decode(errors="replace").strip()
        self._stop()
        return f"with {'signal' if (code or 0) < 0 else 'code'} {abs(code or 0)}: {words or 'no message'}"

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        if self._errors is not None:
            self._errors.close()
        self._process, self._errors, self._end = None, None, None


def lost_processes(children: Sequence[Child]) -> dict[str, float]:
    """Processes of all children that had to be replaced, by reason, for an environment's counters."""
    lost = sum((child.lost for child in children), Counter[str]())
    return {f"lost_processes_{reason}": float(lost[reason]) for reason in REASONS}


def _read_line(source: int, seconds: float, starving: Starving) -> bytes:
    """One line, or nothing where the other side is gone. Raises ``TimeoutError``.

    Time that the process waits for a processor does not count: a busy machine is no fault of what it computes.
    """
    began, parts, poll = time.monotonic(), bytearray(), select.poll()
    poll.register(source, select.POLLIN)
    while not parts.endswith(b"\n"):
        left = began + seconds + starving.seconds() - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if not poll.poll(left * 1000):
            continue  # that long, unless it has been starving meanwhile
        part = os.read(source, 1 << 16)
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)


def main() -> None:
    """Body of the process: answers go to what was standard output; whatever the object prints does not."""
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    served: Any = None
    for line in sys.stdin.buffer:
        message = json.loads(line)
        try:
            if "target" in message:
                served, value = _load(message["target"], message["memory_mb"]), None
            else:
                value = getattr(served, message["method"])(*message["arguments"])
            answer = json.dumps({"value": value, "resident": _resident()})
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:2000]}"
            answer = json.dumps({"error": said, "resident": _resident()})
        answers.write(answer.encode() + b"\n")
        answers.flush()
    os.killpg(0, signal.SIGKILL)  # the parent is gone; what was started here must not outlive it either


def _resident() -> int:
    """Bytes of memory in use; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (called after every answer)
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _load(target: str, memory_mb: int | None) -> Any:
    module, _, attribute = target.partition(":")
    served = getattr(importlib.import_module(module), attribute)()
    if memory_mb is not None:
        import resource

        size = memory_mb << 20
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    return served


def _end_with_parent(parent: int) -> None:
    """A call that never returns must not outlive the process that waits for it."""
    while os.getppid() == parent:
        time.sleep(2)
    os.killpg(0, signal.SIGKILL)
