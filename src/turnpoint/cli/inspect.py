"""``turnpoint inspect``: look at episodes, as a page or in the terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnpoint.cli.common import console, fail, print_json, user_faults
from turnpoint.cli.targets import opened, show_notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnpoint.inspector.store import Progress


def inspect(
    target: Annotated[
        Path, typer.Argument(help="A run folder, or a file or folder of trajectories, other tools' included.")
    ],
    out: Annotated[Path | None, typer.Option(help="Where to write the page (.html).")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve it on this machine, without writing.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --serve; 0 takes a free one.", min=0, max=65535)] = 0,
    terminal: Annotated[bool, typer.Option("--terminal", help="Look at it here, in the terminal.")] = False,
    most: Annotated[int, typer.Option(help="Most episodes; the newest steps come first.", min=1)] = 20_000,
    form: Annotated[str | None, typer.Option("--format", help="Format of foreign trajectories.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Show episodes turn by turn: pivots, advantages, oracle distance, branches beside their originals.

    Example: turnpoint inspect runs/quickstart --out page.html
    """
    if serve and terminal:
        fail("--serve and --terminal exclude each other; use one of them")
    if out is not None and (serve or terminal):
        fail("--out writes a page; leave out --serve and --terminal")
    with user_faults(), opened(target, form) as (path, imported):
        notes = imported.notes()
        if terminal:
            show_notes(notes)
            _terminal(path, most)
        elif serve:
            show_notes(notes)
            _serve(path, most, port)
        else:
            _write(path, target, out, most, notes, as_json=as_json)


def default_page(target: Path) -> Path:
    """``inspect.html`` in a folder, ``NAME.html`` beside a file."""
    return target / "inspect.html" if target.is_dir() else target.with_suffix(".html")


def _write(path: Path, target: Path, out: Path | None, most: int, notes: list[str], *, as_json: bool) -> None:
    """``path`` holds the episodes of ``target``, which names the page."""
    from turnpoint.inspector import plan, write_page

    made = plan(path, most=most)
    made.title = target.resolve().name
    made.notes += notes
    page = out or default_page(target)
    if page.resolve() == target.resolve():
        fail(f"{page} would overwrite the episodes; name another file with --out")
    with _progress("reading episodes") as progress:
        written = write_page(made, page, progress)
    if as_json:
        print_json({"page": str(written.page), "episodes": written.episodes, "notes": written.notes})
        return
    show_notes(written.notes)
    typer.echo(str(written.page))


def _serve(target: Path, most: int, port: int) -> None:
    from turnpoint.inspector import InspectorServer, LiveRun

    run = LiveRun(target, most=most)
    with _progress("reading episodes") as progress:
        run.page(progress)
    try:
        server = InspectorServer(run, port=port)
    except OSError as error:
        fail(
            f"port {port} cannot be used: {error.strerror or error}; choose another one, or 0 for a free one"
        )
    typer.echo(server.url)
    console().print("serving on this machine only; stop with Ctrl-C", markup=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console().print("stopped", markup=False)


def _terminal(target: Path, most: int) -> None:
    try:
        from turnpoint.inspector.terminal.app import InspectorApp
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "textual":
            raise
        fail("textual is not installed; --terminal needs it: pip install 'turnpoint[inspect]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail(
            "--terminal needs a terminal, and this is a pipe or a file; write a page with --out, or use --serve"
        )
    from turnpoint.inspector import plan
    from turnpoint.inspector.catalogue import Catalogue

    with _progress("reading episodes") as progress:
        catalogue = Catalogue(plan(target, most=most), progress)
    InspectorApp(catalogue).run()


@contextmanager
def _progress(words: str) -> Iterator[Progress]:
    """A bar on a terminal, nothing in a pipe."""
    from rich.progress import Progress as Bar

    err = console()
    with Bar(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(words, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
