"""Memory and CPU of this process and of its children."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnpoint.envs.family import children_cpu, family, family_memory

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell")

CHILD = (
    "import sys; kept = bytearray(b'x' * (64 << 20)); sum(range(3_000_000)); print('ready', flush=True); "
    "sys.stdin.read()"
)


def test_children_count() -> None:
    memory, cpu = family_memory(), children_cpu()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert {os.getpid(), process.pid} <= set(family())
        assert family_memory() - memory > 60 << 20
        assert children_cpu() - cpu > 0.01
        process.kill()
    assert process.pid not in family()
    assert children_cpu() - cpu > 0.01
    assert family_memory() - memory < 60 << 20


def test_own_time_is_not_that_of_children() -> None:
    before = children_cpu()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    assert children_cpu() - before < 0.05
