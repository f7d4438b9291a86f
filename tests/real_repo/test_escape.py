"""Everything a program might do to get out of the sandbox, or to bring the machine down, is tried."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import SMALL, Walled

pytestmark = pytest.mark.repo


def running(mark: str) -> list[int]:
    """Processes of this machine whose command line holds ``mark``, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(int(entry.name))
    return found


def gone(mark: str, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(mark)


def test_it_runs_as_nobody_without_any_power(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import os\n"
        "print(os.getuid(), os.geteuid(), os.getcwd())\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')])"
    )
    user, capabilities = ran.output.strip().splitlines()
    assert user.split()[0] == user.split()[1] != "0"
    assert user.split()[2] == "/repo"
    assert set(eval(capabilities)) == {"0" * 16}


def test_there_is_no_network(sandbox: Walled) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        ran = sandbox.python(
            "import socket\n"
            "print([name for _, name in socket.if_nameindex()])\n"
            f"for place in (('127.0.0.1', {server.getsockname()[1]}), ('192.0.2.1', 80), ('8.8.8.8', 53)):\n"
            "    try: socket.create_connection(place, timeout=3); print('CONNECTED', place)\n"
            "    except OSError as error: print('no')\n"
            "try: print('RESOLVED', socket.gethostbyname('example.org'))\n"
            "except OSError: print('no')"
        )
        assert ran.output.split("\n", 1) == ["['lo']", "no\nno\nno\nno\n"]
        with pytest.raises(TimeoutError):
            server.accept()


def test_sockets_of_this_machine_are_out_of_reach(sandbox: Walled) -> None:
    name = f"\0turnpoint-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        ran = sandbox.python(
            f"import socket\ntry: socket.socket(socket.AF_UNIX).connect({name!r}); print('CONNECTED')\n"
            "except OSError: print('no')"
        )
    assert ran.output == "no\n"


def test_nothing_outside_the_tree_can_be_written(sandbox: Walled, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    tmp_path.chmod(0o777)
    victim.chmod(0o666)
    ran = sandbox.python(
        "places = ['/x', '/usr/x', '/usr/bin/x', '/opt/x', '/opt/site/x', '/opt/inside.py', '/etc/x', '/dev/x',\n"
        "          '/proc/sys/kernel/hostname', '/proc/sysrq-trigger', '/opt/python/x', '/root/x', '/home/x',\n"
        f"          {str(victim)!r}, '/proc/1/root/x', '/proc/self/root/usr/x']\n"
        "for place in places:\n"
        "    try:\n"
        "        with open(place, 'w') as file: file.write('changed')\n"
        "        print('WROTE', place)\n"
        "    except OSError: pass\n"
        "for place in ('/repo/a', '/tmp/a', '/dev/shm/a'):\n"
        "    open(place, 'w').write('mine')\n"
        "print('end')"
    )
    assert ran.output == "end\n"
    assert victim.read_text() == "untouched"


def test_links_lead_nowhere(sandbox: Walled, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    secret.chmod(0o644)
    ran = sandbox.python(
        "import os\n"
        f"for number, place in enumerate(['/etc/passwd', '/etc/shadow', {str(secret)!r}, '/proc/1/root/etc/passwd',\n"
        "                                 '/proc/1/mem', '/proc/1/fd/0', '../../../etc/shadow']):\n"
        "    os.symlink(place, f'link{number}')\n"
        "    try: print('READ', place, open(f'link{number}').read(9))\n"
        "    except OSError: pass\n"
        "print('end')"
    )
    assert ran.output == "end\n"


def test_the_environment_of_this_process_is_not_there(
    sandbox: Walled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNPOINT_SECRET", "hunter2")
    ran = sandbox.python(
        "import glob, os\nprint(sorted(os.environ))\n"
        "for name in glob.glob('/proc/[0-9]*/environ'):\n"
        "    try: print(open(name).read())\n"
        "    except OSError: pass"
    )
    assert "PYTHONHASHSEED" in ran.output
    assert "SECRET" not in ran.output
    assert "hunter2" not in ran.output


def test_files_of_this_machine_are_not_there(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import os\n"
        "print(sorted(os.listdir('/')))\n"
        "print([name for name in ('/root', '/home', '/var', '/srv', '/mnt', '/sys', '/run', '/etc/passwd')\n"
        "       if os.path.exists(name)])"
    )
    listed, there = map(eval, ran.output.strip().splitlines())
    assert set(listed) <= {
        "bin", "sbin", "lib", "lib32", "lib64", "usr", "opt", "etc", "dev", "proc", "tmp", "repo"
    }  # fmt: skip
    assert there == []


def test_no_new_power_can_be_had(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print('user namespace', libc.unshare(0x10000000))\n"
        "print('mount namespace', libc.unshare(0x00020000))\n"
        "print('mount', libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))\n"
        "print('chroot', libc.chroot(b'/tmp'))\n"
        "print('hostname', libc.sethostname(b'x', 1))\n"
        "for name, call in (('setuid', lambda: os.setuid(0)), ('mknod', lambda: os.mknod('/tmp/d', 0o60666, 0x800))):\n"
        "    try: call(); print(name, 0)\n"
        "    except OSError: print(name, -1)\n"
        "import resource\n"
        "for name in ('RLIMIT_NPROC', 'RLIMIT_AS', 'RLIMIT_FSIZE', 'RLIMIT_CPU'):\n"
        "    kind = getattr(resource, name)\n"
        "    hard = resource.getrlimit(kind)[1]\n"
        "    try: resource.setrlimit(kind, (hard + 1, hard + 1)); print(name, 0)\n"
        "    except (OSError, ValueError): print(name, -1)"
    )
    lines = ran.output.strip().splitlines()
    assert len(lines) == 11, ran.output
    assert all(line.endswith(" -1") for line in lines), ran.output


def test_programs_with_the_setuid_bit_gain_nothing(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import glob, os, stat, subprocess\n"
        "print(open('/proc/self/status').read().count('NoNewPrivs:\\t1'))\n"
        "for name in ('/usr/bin/su', '/usr/bin/mount', '/usr/bin/passwd'):\n"
        "    if os.path.exists(name):\n"
        "        done = subprocess.run([name, '-c', 'id -u'], capture_output=True, stdin=subprocess.DEVNULL)\n"
        "        print('ROOT' if done.stdout.strip() == b'0' else 'no')"
    )
    assert ran.output.startswith("1\n")
    assert "ROOT" not in ran.output


def test_a_fork_bomb_is_contained(sandbox: Walled) -> None:
    mark = f"bomb-{uuid.uuid4()}"
    code = (
        f"mark = {mark!r}\n"
        "import os, sys, time\n"
        "started = 0\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        "            while True:\n"
        "                try: os.fork()\n"
        "                except OSError: time.sleep(0.01)\n"
        "        started += 1\n"
        "    except OSError:\n"
        "        print('refused after', started, flush=True)\n"
        "        time.sleep(60)"
    )
    begin = time.monotonic()
    ran = sandbox.python(code, seconds=8)
    assert ran.ended == "time"
    assert time.monotonic() - begin < 60
    assert ran.output.startswith("refused after ")
    assert int(ran.output.split()[2]) <= sandbox.settings.processes
    assert gone(mark)


def test_two_sandboxes_do_not_share_their_processes(mine: Walled) -> None:
    """The limit counts a sandbox's own processes: a full one leaves room in another."""
    mark = f"-{uuid.uuid4()}"
    filler = (
        "import os, sys, time\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0: time.sleep(1000)\n"
        "except OSError:\n"
        f"    os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(1000)', 'full' + {mark!r}])"
    )
    other = "import os\nfor _ in range(10):\n    if os.fork() == 0: os._exit(0)\nprint('room')"
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(Walled(SMALL.model_copy(update={"seconds": 120.0})).python, filler)
        while not (full := running(f"full{mark}")) and not ran.done():
            time.sleep(0.05)
        try:
            assert full, ran.result()
            assert mine.python(other).output == "room\n"
            assert not ran.done()
        finally:
            for process in full:
                os.kill(process, signal.SIGKILL)
        assert ran.result(60).ended == ""


def test_endless_output_is_cut_and_counted(sandbox: Walled) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ran = sandbox.python("import os\nwhile True: os.write(1, b'x' * 65536)", seconds=8)
    assert ran.ended == "time"
    assert len(ran.output) == sandbox.settings.output_kb << 10
    assert ran.dropped > 1 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_flooded_report_is_cut(mine: Walled) -> None:
    code = (
        "import os\nfor fd in range(3, 20):\n    try:\n"
        "        while True: os.write(fd, b'[1]\\n' * 16384)\n    except OSError: pass"
    )
    begin = time.process_time()
    ran = mine.python(code)
    assert ran.facts == []
    assert ran.forged
    assert ran.ended == "report"
    assert time.process_time() - begin < 5


def test_what_sleeps_forever_is_ended(sandbox: Walled) -> None:
    mark = f"sleeper-{uuid.uuid4()}"
    begin = time.monotonic()
    ran = sandbox.python(
        f"mark = {mark!r}\nimport signal, time\nfor n in range(1, 32):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "print('asleep', flush=True)\ntime.sleep(1000)",
        seconds=8,
    )
    assert ran.ended == "time"
    assert ran.output == "asleep\n"
    assert time.monotonic() - begin < 60
    assert gone(mark)


def test_what_goes_on_in_the_background_is_ended(sandbox: Walled) -> None:
    mark = f"daemon-{uuid.uuid4()}"
    ran = sandbox.python(
        f"mark = {mark!r}\nimport os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        null = os.open('/dev/null', os.O_RDWR)\n"
        "        for fd in range(0, 20):\n"
        "            try: os.dup2(null, fd)\n"
        "            except OSError: pass\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "os.wait(); print('left')"
    )
    assert ran.output == "left\n"
    assert gone(mark)


def test_it_dies_with_the_process_that_runs_it() -> None:
    mark = f"orphan-{uuid.uuid4()}"
    code = (
        "from turnpoint.envs.repo_repair.sandbox import Sandbox\n"
        "from turnpoint.envs.repo_repair.settings import SandboxSettings\n"
        "sandbox = Sandbox(SandboxSettings())\n"
        f"code = 'mark = \"{mark}\"; import time; time.sleep(1000)'\n"
        "sandbox.run({}, command=[sandbox.interpreter.program, '-c', code])"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 30
        while len(running(mark)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(running(mark)) >= 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert gone(mark)


def test_the_parent_cannot_be_killed(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import os, signal\n"
        "seen = sorted(int(name) for name in os.listdir('/proc') if name.isdecimal())\n"
        "print(len(seen) < 8)\n"
        f"for pid in ({os.getpid()}, {os.getppid()}, 1):\n"
        "    try: os.kill(pid, signal.SIGKILL)\n"
        "    except OSError: pass\n"
        "print('alive', flush=True)\n"
        "os.kill(-1, signal.SIGKILL)"
    )
    assert ran.output.startswith("True\n")
    assert Path(f"/proc/{os.getpid()}").exists()
    assert sandbox.python("print('again')").output == "again\n"


def test_a_huge_file_is_refused(sandbox: Walled) -> None:
    ran = sandbox.python(
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "written = 0\n"
        "try:\n"
        "    with open('huge', 'wb', buffering=0) as file:\n"
        "        while True: written += file.write(bytes(1 << 20))\n"
        "except OSError: print(written >> 20)"
    )
    assert ran.output == f"{sandbox.settings.file_mb}\n"


@pytest.mark.parametrize("folder", ["/repo", "/tmp", "/dev/shm"])
def test_many_files_are_refused_too(sandbox: Walled, folder: str) -> None:
    ran = sandbox.python(
        "written = 0\n"
        "try:\n"
        "    for number in range(10000):\n"
        f"        with open(f'{folder}/{{number}}', 'wb', buffering=0) as file: written += file.write(bytes(1 << 20))\n"
        "except OSError: print(written >> 20)"
    )
    assert 0 < int(ran.output) <= sandbox.settings.disk_mb


def test_memory_of_one_process_is_limited(sandbox: Walled) -> None:
    ran = sandbox.python("try: bytearray(1 << 30); print('HAD IT')\nexcept MemoryError: print('no')")
    assert ran.output == "no\n"


def test_memory_of_all_processes_is_limited(sandbox: Walled) -> None:
    mark = f"eater-{uuid.uuid4()}"
    ran = sandbox.python(
        f"mark = {mark!r}\nimport os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        data = bytearray(os.urandom(1 << 10)) * (120 << 10)\n"
        "        time.sleep(60)\n"
        "time.sleep(60)"
    )
    assert ran.ended == "memory"
    assert gone(mark)


def test_time_of_the_processor_is_limited() -> None:
    sandbox = Walled(SMALL.model_copy(update={"cpu_seconds": 1, "seconds": 60.0}))
    begin = time.process_time()
    ran = sandbox.python("while True: pass")
    assert ran.ended == ""
    assert ran.code not in (0, None)
    assert time.process_time() - begin < 5
