"""Run a program on a tree of files where it can do no harm: bubblewrap, limits, a clock, and a cap on its output.

The tree lives in memory inside the sandbox: it is sent in, and nothing comes back but output and a report. So nothing a
program writes can reach this machine's files, not even through links, and all of it vanishes with the sandbox.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.repo_repair.settings import INSTALL, SandboxSettings
from turnpoint.envs.repo_repair.site import other_interpreter, own_interpreter
from turnpoint.envs.repo_repair.walls import command_line
from turnpoint.envs.repo_repair.watch import watch

_MOST_FORGED = 100
"""Foreign lines after which the rest of a report is not read."""
_HOW = (
    "bubblewrap could not make a sandbox here ({}). It needs user namespaces: set sysctl user.max_user_namespaces "
    "above 0, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
    "in Docker run with --security-opt seccomp=unconfined. Tests are never run outside a sandbox"
)


class File(NamedTuple):
    """One file of a tree."""

    data: bytes
    mode: str = ""
    """``run`` for an executable one, ``link`` for a symbolic link (to ``data``)."""


@dataclass(slots=True)
class Ran:
    """What came of a run."""

    code: int | None
    """Exit status; None if it was ended."""
    output: str
    dropped: int = 0
    """Bytes of output beyond the cap."""
    ended: str = ""
    """Why it was ended: ``time``, ``memory``, ``report`` (it was flooded) or empty."""
    facts: list[dict[str, Any]] = field(default_factory=list)
    """What the tests reported, in order."""
    forged: int = 0
    """Lines of the report that did not carry the run's word."""


class Sandbox:
    """Makes sandboxes, one for each run; safe to use from several threads."""

    def __init__(self, settings: SandboxSettings, requires: Iterable[str] = ()) -> None:
        """``requires``: distributions that tests need besides pytest.

        Raises ``EnvDataError``, saying what to install or to allow, if no sandbox can be made: there is no other way
        to run anything.
        """
        self.settings = settings
        program = shutil.which("bwrap")
        if program is None:
            raise EnvDataError(f"repository repair runs tests in a sandbox, and there is none: {INSTALL}")
        own = settings.python is None
        self.interpreter = own_interpreter(requires) if own else other_interpreter(Path(str(settings.python)))
        self._command = command_line(program, settings, self.interpreter)
        self._places = threading.BoundedSemaphore(settings.at_a_time)
        ran = self.run({}, command=[self.interpreter.program, "-c", "print(6 * 7)"])
        if ran.output.strip() != "42":
            raise EnvDataError(_HOW.format(ran.output.strip()[-300:] or f"exit status {ran.code}"))

    def run(
        self,
        files: Mapping[str, File],
        *,
        command: Sequence[str] = (),
        arguments: Sequence[str] = (),
        trace: bool = False,
        variants: Sequence[Mapping[str, str]] = (),
        cpu_each: float = 1.0,
    ) -> Ran:
        """Run ``command`` on the tree or, without one, pytest with ``arguments``; never raises for what they do.

        ``trace``: report which lines were executed. ``variants``: run pytest once for each, with these files changed,
        for at most ``cpu_each`` seconds of CPU time; every fact then says which variant
        it belongs to. They share one set of limits.
        """
        order = {
            "command": list(command),
            "arguments": list(arguments),
            "trace": trace,
            "variants": [dict(variant) for variant in variants],
            "cpu_each": cpu_each,
        }
        with self._places:
            return self._run(files, order, self.settings.seconds * (1 + len(variants)))

    def _run(self, files: Mapping[str, File], order: dict[str, Any], seconds: float) -> Ran:
        word = secrets.token_hex(16)
        reading, writing = os.pipe()
        order |= {
            "files": [[path, len(file.data), file.mode] for path, file in files.items()],
            "limits": _limits(self.settings),
            "word": word,
            "channel": writing,
        }
        sent = json.dumps(order).encode() + b"\n" + b"".join(file.data for file in files.values())
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            raise EnvError(f"the sandbox could not be started: {error}") from error
        finally:
            os.close(writing)
        seen = watch(process, sent, reading, self.settings, seconds)
        ran = Ran(seen.code, seen.output.decode(errors="replace"), seen.dropped, seen.ended)
        for line in io.BytesIO(seen.report):
            if ran.forged > _MOST_FORGED:
                break
            fact = _fact(line, word)
            ran.forged += fact is None
            ran.facts += [] if fact is None else [fact]
        return ran


def _fact(line: bytes, word: str) -> dict[str, Any] | None:
    try:
        said, fact = json.loads(line)
    except (ValueError, TypeError):
        return None
    return fact if said == word and isinstance(fact, dict) else None


def _limits(settings: SandboxSettings) -> dict[str, int]:
    return {
        "RLIMIT_CPU": settings.cpu_seconds,
        "RLIMIT_AS": settings.memory_mb << 20,
        "RLIMIT_NPROC": settings.processes,
        "RLIMIT_FSIZE": settings.file_mb << 20,
        "RLIMIT_NOFILE": 256,
        "RLIMIT_CORE": 0,
    }
