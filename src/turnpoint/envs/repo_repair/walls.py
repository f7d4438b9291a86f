"""The walls of a sandbox: bubblewrap's command line."""

from __future__ import annotations

import os
from pathlib import Path

from turnpoint.envs.repo_repair.settings import SandboxSettings
from turnpoint.envs.repo_repair.site import PYTHON, Interpreter

NOBODY = 65534
"""Whom programs run as where this process is root: the limit on processes does not bind root."""
GUIDE = "/opt/inside.py"
"""Where the first program lies in the sandbox."""


def command_line(
    program: str, settings: SandboxSettings, interpreter: Interpreter, *, root: bool | None = None
) -> list[str]:
    """Namespaces, what is visible, what is writable, environment, and the first program.

    ``root``: whether root starts it (None = find out). Root makes the walls, but nothing inside runs as root.
    """
    root = os.geteuid() == 0 if root is None else root
    disk = str(settings.disk_mb << 20)
    command = [program, "--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"]
    command += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not root:
        command += ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    command += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for top in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if top.is_symlink():
            command += ["--symlink", str(top.readlink()), str(top)]
        elif top.is_dir():
            command += ["--ro-bind", str(top), str(top)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    command += ["--perms", "0755", "--dir", "/opt"]
    # Before what is shown, which may lie below them: an interpreter in a folder of /tmp.
    for folder in ("/tmp", "/repo", "/dev/shm"):
        command += ["--perms", "1777", "--size", disk, "--tmpfs", folder]
    for source, place in interpreter.shown:
        for above in reversed(Path(place).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(above)]
        command += ["--ro-bind", source, place]
    for folder in interpreter.hidden:
        command += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    command += ["--ro-bind", str(Path(__file__).with_name("inside.py")), GUIDE]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in _environment(interpreter).items():
        command += ["--setenv", name, value]
    if root:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--"]
        command += ["/usr/bin/setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        # A user namespace of its own, so that the limit on processes counts those of this sandbox alone.
        command += [program, "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
        command += ["--dev-bind", "/", "/"]
    return [*command, "--", interpreter.program, GUIDE]


def _environment(interpreter: Interpreter) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "120",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(filter(None, [interpreter.path, "/repo", "/repo/src"])),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # For interpreters that bring libpython along and look for it where they were installed.
        **({"LD_LIBRARY_PATH": f"{PYTHON}/lib"} if interpreter.program.startswith(PYTHON) else {}),
    }
