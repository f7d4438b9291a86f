"""A sandbox, as whoever runs the tests and as a normal user; without bubblewrap everything here fails."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnpoint.envs.repo_repair.sandbox import Ran, Sandbox
from turnpoint.envs.repo_repair.settings import SandboxSettings
from turnpoint.envs.repo_repair.site import Interpreter
from turnpoint.envs.repo_repair.walls import GUIDE, command_line

SMALL = SandboxSettings(
    seconds=15, cpu_seconds=10, memory_mb=400, processes=24, disk_mb=24, file_mb=8, output_kb=64
)


class Walled(Sandbox):
    """A sandbox with a short way to run Python in it."""

    def python(self, code: str, seconds: float | None = None) -> Ran:
        before = self.settings
        if seconds is not None:
            self.settings = before.model_copy(update={"seconds": seconds})
        try:
            return self.run({}, command=[self.interpreter.program, "-c", code])
        finally:
            self.settings = before


@pytest.fixture(scope="session")
def mine() -> Walled:
    return Walled(SMALL)


@pytest.fixture(scope="session")
def a_users() -> Iterator[Walled]:
    """The walls that a normal user builds; built by one, if root runs the tests."""
    sandbox = Walled(SMALL)
    if os.geteuid() != 0:
        yield sandbox
        return
    # The interpreter and the checkout may lie where only root can look.
    sandbox.interpreter = Interpreter(str(Path("/usr/bin/python3").resolve()), (), (), "")
    command = command_line(str(shutil.which("bwrap")), SMALL, sandbox.interpreter, root=False)
    guide = command[command.index(GUIDE) - 1]
    with tempfile.NamedTemporaryFile(suffix=".py") as copy:
        copy.write(Path(guide).read_bytes())
        copy.flush()
        Path(copy.name).chmod(0o644)
        command = [copy.name if part == guide else part for part in command]
        sandbox._command = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", *command]
        yield sandbox


@pytest.fixture(params=["mine", "a_users"])
def sandbox(request: pytest.FixtureRequest) -> Walled:
    found: Walled = request.getfixturevalue(request.param)
    return found
