"""``turnpoint gpu-smoke``: the conformance suite on this machine's GPU."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnpoint.cli.common import NO, console, print_json, user_faults

if TYPE_CHECKING:
    from turnpoint.testing.conformance import Assertion
    from turnpoint.testing.smoke import Smoke

DTYPES = ("float32", "bfloat16")


def gpu_smoke(
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as policy.setting=value.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Folder of a Hugging Face model; a tiny one is built without it.")
    ] = None,
    backend: Annotated[
        str, typer.Option(help="Kind of the policy: local, verl, vllm, or your own.")
    ] = "local",
    dtype: Annotated[
        list[str] | None, typer.Option(help="float32 or bfloat16; repeat for both, the default.")
    ] = None,
    device: Annotated[str, typer.Option(help="cuda, cuda:1 … or cpu.")] = "cuda",
    lr: Annotated[
        float | None, typer.Option(help="Learning rate; one step must move log-probs visibly.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference of log-probs in nats; 1e-5 in float32 without it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Prove a backend on this machine: sampler and trainer agree, updates train the right tokens, checkpoints hold.

    The same assertions as in the project's tests, on your GPU, your kernels and your model. Exit code 1 if one is
    violated; each says what it measured and what to look at. Weights change in memory only.

    Example: turnpoint gpu-smoke --model models/Qwen3-1.7B --backend verl policy.gpus_per_node=8
    """
    from turnpoint.config import ConfigError

    with user_faults(), _model(model) as folder, _engines_to_stderr():
        from turnpoint.testing import smoke as smokes

        for name in dtype or DTYPES:
            if name not in DTYPES:
                raise ConfigError(f"--dtype is '{name}'; use {' or '.join(DTYPES)}")
        where = smokes.require_device(device)
        rate = lr or (smokes.TINY_LR if model is None else smokes.LR)
        done = []
        for name in dtype or DTYPES:
            settings = smokes.policy_settings(
                backend, folder, dtype=name, device=device, lr=rate, overrides=overrides or []
            )
            console().print(f"{backend} on {where}, {name}")
            done.append(smokes.smoke(settings, dtype=name, tolerance=tolerance, progress=_note))
    report = _report(done, backend, where, model)
    if as_json:
        print_json(report)
    else:
        _table(done)
    if not report["ok"]:
        raise typer.Exit(NO)


@contextmanager
def _model(given: Path | None) -> Iterator[Path]:
    """The user's model, or a tiny one for as long as the block runs."""
    if given is not None:
        yield given
        return
    from turnpoint.policy.quiet import without_progress_bars
    from turnpoint.testing.tiny_model import write_tiny_model

    with tempfile.TemporaryDirectory() as folder, without_progress_bars():
        yield write_tiny_model(
            Path(folder) / "tiny", context=2048, width=128
        )  # heads of 64, which GPU kernels take


@contextmanager
def _engines_to_stderr() -> Iterator[None]:
    """What engines and their processes write to standard output goes to standard error; it is the report's alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _note(assertion: Assertion) -> None:
    console().print(f"  {_mark(assertion)} {assertion.name}")


def _mark(assertion: Assertion) -> str:
    return {True: "ok  ", False: "FAIL", None: "skip"}[assertion.ok]


def _report(done: list[Smoke], backend: str, where: str, model: Path | None) -> dict[str, Any]:
    return {
        "ok": all(run.ok for run in done),
        "backend": backend,
        "device": where,
        "model": "tiny" if model is None else str(model),
        "runs": [
            {"dtype": run.dtype, "ok": run.ok, "assertions": [a.to_dict() for a in run.assertions]}
            for run in done
        ],
    }


def _table(done: list[Smoke]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    for run in done:
        table = Table(title=run.dtype, title_justify="left", box=SIMPLE)
        for column in ("", "assertion", "measured", "bound"):
            table.add_column(column, no_wrap=True)
        for a in run.assertions:
            numbers = ("" if value != value else f"{value:.2g}" for value in (a.value, a.bound))
            table.add_row(_mark(a).strip(), a.name, *numbers)
        Console().print(table)
        for a in run.assertions:
            if a.ok is not True:
                typer.echo(f"{_mark(a).strip()} {a.name}: {a.detail}")
    faults = sum(a.ok is False for run in done for a in run.assertions)
    skipped = sum(a.ok is None for run in done for a in run.assertions)
    typer.echo(
        f"{faults or 'no'} assertion{'' if faults == 1 else 's'} violated, {skipped} could not be tested"
    )
