"""What this process and its children use: engines that work in processes of their own count as the environment's."""

from __future__ import annotations

import os
import time
from pathlib import Path


def family() -> list[int]:
    """This process, its children, theirs and so on; it alone where the system does not tell."""
    found, at = [os.getpid()], 0
    while at < len(found):
        found += _children(found[at])
        at += 1
    return found


def family_memory() -> int:
    """Resident bytes of the family; 0 where the system does not tell. What processes share counts for each."""
    return sum(_resident(process) for process in family())


def children_cpu() -> float:
    """Seconds of CPU that the children of this process have used, living or ended."""
    ended = os.times()
    total = ended.children_user + ended.children_system
    for process in family()[1:]:
        try:
            total += time.clock_gettime(~process << 3 | 2)  # the kernel's name of another process's CPU clock
        except OSError:
            continue  # it has ended
    return total


class Starving:
    """How long a process has been ready to run and had to wait for a processor, since this was made."""

    def __init__(self, process: int) -> None:
        self._path = f"/proc/{process}/schedstat"
        self._before = self._waited()

    def seconds(self) -> float:
        """0 where the system does not tell."""
        return max(0.0, self._waited() - self._before)

    def _waited(self) -> float:
        try:
            with open(self._path, "rb") as file:  # noqa: PTH123 (called for every answer)
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    try:
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended, or the system has no such files
        return []


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
