from __future__ import annotations

import subprocess
import sys

from turnpoint.rollouts import Streams


def test_streams_are_equal_in_another_process() -> None:
    code = "from turnpoint.rollouts.streams import Streams; print(Streams(7).seed('a', 1, 'b'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == Streams(7).seed("a", 1, "b")


def test_streams_differ_by_every_name() -> None:
    s = Streams(0)
    seeds = {s.seed("a", 1), s.seed("a", "1"), s.seed("a1"), s.seed("a", 1, ""), Streams(1).seed("a", 1)}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
