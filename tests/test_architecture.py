"""Dependencies point downwards only; heavy packages stay in their rooms."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "turnpoint"

ENV_CONTRACT = {"envs.protocol", "envs.replay"}
"""What methods may know of environments: the contract, and how a recorded state is brought back under it."""
POLICY_CONTRACT = {"policy.protocol", "policy.settings"}
"""What methods may know of policies; settings say which losses and log-probs a run asks for."""

MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "records": set(),
    "credit": {"records"},
    "envs": {"config", "records"},
    "prompts": {"config", "records"},
    "policy": {"config", "records"},
    "teachers": {"config", "envs", "policy", "prompts", "records"},
    "rollouts": {"config", "envs", "policy", "prompts", "records"},
    "methods": {
        "config", "credit", "prompts", "records", "rollouts", "teachers.protocol", *ENV_CONTRACT, *POLICY_CONTRACT,
    },
    "pivots": {"config", "envs", "policy", "prompts", "records", "rollouts", "teachers"},
    "training": {
        "config", "envs", "methods", "pivots", "policy", "prompts", "records", "rollouts", "teachers",
    },
    "preflight": {
        "config", "envs", "methods", "policy", "prompts", "records", "rollouts", "teachers", "training",
    },
    "planning": {"config", "preflight", "training"},
    "exchange": {"records"},
    "inspector": {"config", "pivots", "records", "training"},
    "testing": {
        "config", "envs", "policy", "prompts", "records", "rollouts", "teachers", "methods", "training",
    },
}  # fmt: skip
"""Rooms, or modules of them, that each room may import; ``cli`` may import all."""

VERL_ROOMS = ("policy/verl/", "testing/verl_cpu/")
TORCH_ROOMS = ("policy/local/", "policy/small/", "policy/loss.py", *VERL_ROOMS)
LIGHT_IN_VERL_ROOMS = (
    "__init__", "backend", "cluster", "compose", "errors", "hooks", "loop", "policy", "settings", "translate", "unfit",
)  # fmt: skip
"""Modules of the verl policy that load without torch, Ray and verl; the rest of its room may need them at once."""
HEAVY = ("torch", "transformers", "safetensors", "tokenizers")
_PATH = re.compile(r"(turnpoint(?:\.\w+)+)(?::\w+)?")


def files(room: str) -> list[Path]:
    return sorted((SOURCE / room).rglob("*.py"))


def is_module(name: str) -> bool:
    """Whether a dotted name is a module or package of this project."""
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def exports(package: str) -> dict[str, str]:
    """Where the names that a package re-exports are defined."""
    path = SOURCE.parent.joinpath(*package.split(".")) / "__init__.py"
    if not path.is_file():
        return {}
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def defined_in(module: str, name: str) -> str:
    """The module that ``from module import name`` reaches: a submodule, or the one a package has the name from."""
    if is_module(f"{module}.{name}"):
        return f"{module}.{name}"
    origin = exports(module).get(name, "")
    return defined_in(*origin.rsplit(".", 1)) if origin.startswith("turnpoint.") else module


def checked_only(tree: ast.AST) -> set[int]:
    """Nodes under ``if TYPE_CHECKING``, which never run; the ``else`` branch does."""
    return {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        and ast.unparse(branch.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }


def imports(code: str) -> Iterator[tuple[str, bool]]:
    """(module of this project, whether only for type checking) of whatever the code reaches, wherever it stands.

    Strings that name a module (``turnpoint.x:Y`` of a registry, ``import_module("turnpoint.x")``) count too, and so
    do attributes of the package itself (``turnpoint.x`` after ``import turnpoint``).
    """
    tree = ast.parse(code)
    typing_only = checked_only(tree)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names = [defined_in(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = _PATH.fullmatch(node.value)
            names = [found[1]] if found and (":" in node.value or is_module(found[1])) else []
        elif isinstance(node, ast.Attribute) and _PATH.fullmatch(ast.unparse(node)):
            names = [ast.unparse(node)] if is_module(ast.unparse(node)) else []
        for name in names:
            if name.startswith("turnpoint."):
                yield name.removeprefix("turnpoint."), id(node) in typing_only


def lies_in(name: str, allowed: set[str]) -> bool:
    return any(name == item or name.startswith(item + ".") for item in allowed)


def forbidden(room: str, code: str) -> list[str]:
    """What ``code`` in a room imports and may not; imports for type checking alone are free."""
    allowed = MAY_IMPORT[room] | {room}
    return [name for name, typing_only in imports(code) if not typing_only and not lies_in(name, allowed)]


def module_level(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements that run when a module is imported, those inside ``if``, ``try``, ``with`` and classes included."""
    skipped = checked_only(tree)
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or id(node) in skipped:
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from module_level(node)


def heavy_imports(code: str) -> list[str]:
    """Heavy packages that code imports when it is imported itself."""
    names: list[str] = []
    for node in module_level(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return [name for name in names if name.split(".")[0] in HEAVY]


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_import_only_what_lies_below(room: str) -> None:
    assert files(room), f"room {room} is empty"
    found = {str(path.relative_to(SOURCE)): forbidden(room, path.read_text()) for path in files(room)}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_room_is_under_the_rule() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms == set(MAY_IMPORT) | {"cli"}


def implementations() -> set[str]:
    """Packages of single environments."""
    found = {f"envs.{path.parent.name}" for path in (SOURCE / "envs").glob("*/__init__.py")}
    return found - {"envs.checks", "envs.exports"}


def test_nobody_but_the_registry_knows_an_environment() -> None:
    assert implementations() >= {"envs.household", "envs.sokoban", "envs.minesweeper"}
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).as_posix()
        own = {name for name in implementations() if inside.startswith(name.replace(".", "/") + "/")}
        if inside == "envs/registry.py":
            continue
        for name, _ in imports(path.read_text()):  # not even for type checking
            assert not lies_in(name, implementations() - own), f"{inside} imports {name}"


def test_methods_know_contracts_even_where_only_types_are_checked() -> None:
    for path in files("methods"):
        for name, _ in imports(path.read_text()):
            assert lies_in(name, MAY_IMPORT["methods"] | {"methods"}), f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ("from turnpoint import teachers", "teachers"),
        ("from turnpoint import teachers as t", "teachers"),
        ("from turnpoint.policy import local", "policy.local"),
        ("from turnpoint.envs import household", "envs.household"),
        ("from turnpoint.envs import env_registry", "envs.registry"),
        ("from turnpoint.envs import *", "envs"),
        ("from turnpoint.teachers import TeacherSettings", "teachers.registry"),
        ("import turnpoint.training.loop", "training.loop"),
        ("import turnpoint\nturnpoint.training", "training"),
        ("def f():\n    from turnpoint.policy.local import LocalPolicy", "policy.local.policy"),
        ("KINDS = {'small': 'turnpoint.training.small_agent:SmallPolicySettings'}", "training.small_agent"),
        ("import_module('turnpoint.training.run')", "training.run"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import turnpoint.training", "training"),
        ("if not TYPE_CHECKING:\n    import turnpoint.training", "training"),
    ],
)
def test_disguised_imports_are_caught(code: str, caught: str) -> None:
    assert caught in forbidden("methods", code)


@pytest.mark.parametrize(
    "code",
    [
        "from turnpoint.envs import Capabilities, Env",
        "from turnpoint.policy import ScoreRequest",
        "from turnpoint.teachers.protocol import TeacherError",
        "import turnpoint\nturnpoint.__version__",
        "'turnpoint.teachers is a room'",
        "GROUP = 'turnpoint.methods'",
        "if TYPE_CHECKING:\n    from turnpoint.training.run import Run",
    ],
)
def test_contracts_are_not_caught(code: str) -> None:
    assert forbidden("methods", code) == []


def test_relative_imports_are_refused() -> None:
    for code in ("from . import x", "from .x import y"):
        with pytest.raises(AssertionError, match="relative"):
            list(imports(code))


def test_torch_is_imported_by_the_local_policy_only() -> None:
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE).as_posix()
        if not relative.startswith(TORCH_ROOMS):
            assert heavy_imports(path.read_text()) == [], relative


@pytest.mark.parametrize(
    "code",
    [
        "import torch.nn",
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        "try:\n    pass\nexcept ImportError:\n    from transformers import x",
        "if sys.platform:\n    pass\nelse:\n    import safetensors",
        "class A:\n    from tokenizers import B",
        "with x:\n    for y in z:\n        import torch",
    ],
)
def test_heavy_imports_are_caught_wherever_they_run(code: str) -> None:
    assert heavy_imports(code)


def test_lazy_heavy_imports_are_fine() -> None:
    assert heavy_imports("def f():\n    import torch") == []
    assert heavy_imports("class A:\n    async def f(self):\n        import torch") == []
    assert heavy_imports("if TYPE_CHECKING:\n    import torch") == []


def loads_without_verl(path: Path) -> bool:
    """Whether a module of the verl policy is one that must load without verl."""
    return "turnpoint/policy/verl/" in path.as_posix() and path.stem in LIGHT_IN_VERL_ROOMS


def test_only_the_verl_policy_and_its_test_kit_know_verl() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).as_posix().startswith(VERL_ROOMS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("verl", "tensordict")], path


def test_everything_outside_the_local_policy_loads_without_torch() -> None:
    """The command line above all; what is imported on the way counts too."""
    inside = [path.relative_to(SOURCE.parent) for path in sorted(SOURCE.rglob("*.py"))]
    light = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in inside
        if (not path.relative_to("turnpoint").as_posix().startswith(TORCH_ROOMS) or loads_without_verl(path))
        and path.name != "__main__.py"
        and "inspector/terminal" not in path.as_posix()  # needs textual, which may be missing
    ]
    assert len(light) > 100
    code = f"""
import importlib, sys
for name in {light!r}:
    importlib.import_module(name)
    heavy = [package for package in {(*HEAVY, "ray", "verl")!r} if package in sys.modules]
    assert not heavy, f"{{name}} loads {{heavy}}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
