"""``turnpoint methods``: every training method, its paper, terms and options."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from turnpoint.cli.common import print_json


def describe_methods() -> list[dict[str, Any]]:
    """Name, title, paper, terms and options of every registered method."""
    from turnpoint.methods import method_registry

    described = []
    for name in method_registry.names():
        settings = method_registry.get(name)
        options = {
            key: {
                "default": None if field.is_required() else field.get_default(call_default_factory=True),
                "required": field.is_required(),
                "about": " ".join((field.description or "").split()),
            }
            for key, field in settings.model_fields.items()
            if key != "kind"
        }
        described.append(
            {
                "name": name,
                "title": settings.title,
                "paper": settings.paper,
                "terms": list(settings.terms),
                "options": options,
            }
        )
    return described


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    options: Annotated[bool, typer.Option(help="Show every option with its default.")] = False,
) -> None:
    """List training methods.

    Example: turnpoint methods --options
    """
    found = describe_methods()
    if as_json:
        print_json(found)
        return
    for method in found:
        typer.echo(f"{method['name']}  {method['title']} ({method['paper']}): {' + '.join(method['terms'])}")
        if options:
            for key, option in method["options"].items():
                value = "(required)" if option["required"] else option["default"]
                typer.echo(f"    {key} = {value}  {option['about']}")
