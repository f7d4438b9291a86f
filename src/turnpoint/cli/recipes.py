"""``turnpoint recipes``: the recipes that come with the package."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import print_json
from turnpoint.config import ConfigError, load_yaml

_INSTALLED = Path(__file__).resolve().parents[1] / "recipes"
_CHECKOUT = Path(__file__).resolve().parents[3] / "recipes"


def recipes_folder() -> Path:
    """Where recipes lie: inside the installed package, or beside ``src`` in a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def list_recipes() -> list[Path]:
    """All recipe files, sorted by name."""
    return sorted(recipes_folder().glob("*.yaml"))


def find_recipe(text: str) -> Path:
    """A path that exists, else a packaged recipe: by its name, or by its path in a checkout."""
    path = Path(text)
    if path.is_file():
        return path
    packaged = recipes_folder() / f"{path.stem}.yaml"
    # Any other path is a file that the user has in mind: its namesake here would be another run.
    if (
        text in (path.stem, path.name, f"recipes/{path.name}")
        and path.suffix in ("", ".yaml")
        and packaged.is_file()
    ):
        return packaged
    if path.is_dir():
        raise ConfigError(f"{text} is a folder and no run's (it has no config.yaml); name a config file")
    names = [item.stem for item in list_recipes()]
    near = difflib.get_close_matches(path.stem, names, n=1, cutoff=0.7)
    hint = f"did you mean '{near[0]}'?" if near else f"recipes that come with turnpoint: {', '.join(names)}"
    raise ConfigError(f"there is no config file {text}; {hint}")


def first_comment(path: Path) -> str:
    """The comment at the top of a recipe, in one line."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    return " ".join(lines)


def recipes(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    show: Annotated[str | None, typer.Option(help="Print this recipe with its bases laid under it.")] = None,
) -> None:
    """List the recipes that come with turnpoint.

    Example: turnpoint recipes --show quickstart
    """
    import yaml

    from turnpoint.cli.common import user_faults

    with user_faults():
        if show is not None:
            typer.echo(yaml.safe_dump(load_yaml(find_recipe(show)), sort_keys=False))
            return
        found = [{"name": p.stem, "about": first_comment(p), "path": str(p)} for p in list_recipes()]
        if as_json:
            print_json(found)
            return
        width = max((len(item["name"]) for item in found), default=0)
        for item in found:
            typer.echo(f"{item['name']:<{width}}  {item['about']}")
