"""What the child process of ``faulty_env`` serves; needs nothing, so that it starts at once."""

from __future__ import annotations

import os
import signal
import time


class Engine:
    """Served by the child process."""

    def __init__(self) -> None:
        self.kept: list[bytearray] = []

    def work(self, wrong: str) -> int:
        if wrong == "engine hangs":
            time.sleep(600)
        if wrong == "engine crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if wrong == "engine leaks":
            self.kept.append(bytearray(os.urandom(1 << 20) * 64))
        return os.getpid()
