from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from turnpoint.envs import EnvError
from turnpoint.envs.child import Child, ChildCrashed, ChildHung, _read_line, lost_processes
from turnpoint.envs.family import Starving

FAULTY = """
import os, signal, subprocess, time
from pathlib import Path


class Faulty:
    def __init__(self) -> None:
        self.calls = 0

    def add(self, a: int, b: int) -> int:
        self.calls += 1
        print("noise on standard output")
        return a + b

    def count(self) -> int:
        return self.calls

    def hang(self) -> None:
        time.sleep(60)

    def die(self) -> None:
        os.write(2, b"last words")
        os.kill(os.getpid(), signal.SIGSEGV)

    def fail(self) -> None:
        raise KeyError("no such thing")

    def eat(self) -> int:
        return len(bytearray(3 << 30))

    def leak(self) -> int:
        self.kept = getattr(self, "kept", []) + [b"x" * (40 << 20)]
        return len(self.kept)

    def spawn(self) -> int:
        return subprocess.Popen(["sleep", "1000"]).pid


def late() -> Faulty:
    if not Path(__file__).with_name("ready").exists():
        raise RuntimeError("the engine is not there yet")
    return Faulty()
"""
"""Everything that an engine may do."""


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "faulty_engine.py").write_text(FAULTY)
    monkeypatch.syspath_prepend(tmp_path)
    made = Child("faulty_engine:Faulty", 5.0, memory_mb=1024)
    yield made
    made.close()


def test_calls_are_answered_and_prints_do_no_harm(child: Child) -> None:
    assert child.call("add", 2, 3) == 5
    assert child.call("count") == 1
    assert child.generation == 1


def test_a_call_that_hangs_costs_itself(child: Child) -> None:
    assert child.call("add", 1, 1) == 2
    began = time.monotonic()
    with pytest.raises(ChildHung, match=r"Faulty\.hang took longer than 0\.2 s"):
        child.call("hang", seconds=0.2)
    assert time.monotonic() - began < 5
    assert child.call("count") == 0  # another process
    assert child.generation == 2


def test_a_crash_is_told_with_its_signal_and_last_words(child: Child) -> None:
    with pytest.raises(ChildCrashed, match=r"signal 11: .*last words"):
        child.call("die")
    assert child.call("add", 1, 2) == 3


def test_what_is_raised_comes_back_as_text_and_the_process_goes_on(child: Child) -> None:
    with pytest.raises(EnvError, match="KeyError: 'no such thing'"):
        child.call("fail")
    with pytest.raises(EnvError, match="MemoryError"):
        child.call("eat")
    assert child.call("add", 0, 1) == 1
    assert child.generation == 1


def test_threads_wait_for_each_other(child: Child) -> None:
    answers: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda n=n: answers.__setitem__(n, child.call("add", n, n))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: 2 * n for n in range(8)}


def ended(process: int, seconds: float = 20.0) -> bool:
    """Whether a process is gone, or only not yet waited for by whoever has inherited it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["hang", "die", "close"])
def test_what_it_has_started_ends_with_it(child: Child, end: str) -> None:
    started = child.call("spawn")
    assert Path(f"/proc/{started}").exists()
    if end == "close":
        child.close()
    else:
        with pytest.raises(EnvError):
            child.call(end, seconds=0.5)
    assert ended(started)


def test_it_ends_with_its_parent_and_takes_along_what_it_has_started(child: Child) -> None:
    code = (
        "import os\nfrom turnpoint.envs.child import Child\n"
        f"child = Child({child.target!r}, 30.0)\nprint(child.call('spawn'), flush=True)\nos._exit(0)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert ended(int(done.stdout))


def test_a_start_that_fails_is_told_as_such_and_tried_again(child: Child, tmp_path: Path) -> None:
    child.target = "faulty_engine:late"
    for _ in range(2):
        with pytest.raises(EnvError, match=r"late\.start: RuntimeError: the engine is not there yet"):
            child.call("count")
    (tmp_path / "ready").touch()
    assert child.call("count") == 0


def test_many_open_files_do_no_harm() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("fewer than 2,048 files may be open here")
    source, other = os.pipe()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        high = fcntl.fcntl(source, fcntl.F_DUPFD, 1500)
        os.write(other, b"line\n")
        assert _read_line(high, 5.0, Clock(0.0)) == b"line\n"
        os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(source)
        os.close(other)


def test_a_forgotten_child_ends(child: Child) -> None:
    child.call("count")
    process = child._process
    assert process is not None
    child.close()
    assert process.poll() is not None


def test_a_process_that_grows_is_replaced_after_its_answer(child: Child) -> None:
    grown = Child(child.target, 30.0, resident_mb=150)
    answers = [grown.call("leak") for _ in range(6)]
    grown.close()
    assert grown.lost == {"memory": grown.generation - 1 + (answers[-1] == max(answers))}
    assert grown.lost["memory"] >= 1
    assert max(answers) < 6
    assert answers[: max(answers) + 1] == [*range(1, max(answers) + 1), 1]  # the answer that came last counts


def test_lost_processes_are_counted_by_reason(child: Child) -> None:
    for method, error in (("die", ChildCrashed), ("hang", ChildHung)):
        with pytest.raises(error):
            child.call(method, seconds=0.3)
    assert lost_processes([child]) == {
        "lost_processes_hung": 1.0, "lost_processes_crashed": 1.0, "lost_processes_memory": 0.0
    }  # fmt: skip


class Clock:
    """Stands for a process that has had to wait so long for a processor, each time it is asked."""

    def __init__(self, *waited: float) -> None:
        self.waited = list(waited)

    def seconds(self) -> float:
        return self.waited.pop(0) if len(self.waited) > 1 else self.waited[0]


@pytest.mark.parametrize(("waited", "least", "most"), [((0.0,), 0.1, 0.4), ((0.0, 0.3, 0.3), 0.4, 0.9)])
def test_waiting_for_a_processor_is_not_the_time_of_a_call(
    waited: tuple[float, ...], least: float, most: float
) -> None:
    source, other = os.pipe()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        _read_line(source, 0.1, Clock(*waited))
    assert least <= time.monotonic() - began < most + 5  # a busy machine may be late
    os.close(source)
    os.close(other)


def test_the_system_tells_how_long_a_process_waits(child: Child) -> None:
    child.call("count")
    assert child._process is not None
    starving = Starving(child._process.pid)
    child.call("count")
    assert 0.0 <= starving.seconds() < 60.0
    assert Starving(1 << 22).seconds() == 0.0
