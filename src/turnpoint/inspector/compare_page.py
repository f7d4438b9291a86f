"""The comparison of runs as one self-contained page, and its curves as SVG and PNG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import escape

from turnpoint.inspector.assets import bundle, content_policy, templates, write_atomically
from turnpoint.inspector.comparison import AXES, FIGURES, ComparedRun, Pairing, pairings
from turnpoint.inspector.figures import interval_cell
from turnpoint.inspector.plots import HEIGHT, WIDTH, Series, line_chart, swatch
from turnpoint.inspector.text import clip_note
from turnpoint.records import RecordError

_STYLE = ("base.css", "episode.css", "report.css")
_TOGETHER = 4
"""Curves in one chart: as many as differ in colour, dash and mark."""
_SHARES = ("success", "recovered", "pivot_rate")
_COLOURS = ("#0072b2", "#d55e00", "#00805f", "#8e3a80")
_DASHES = ("", "6 3", "2 3", "9 3 2 3")


def chart_series(runs: Sequence[ComparedRun]) -> Iterator[tuple[str, str, str, list[Series]]]:
    """(file name, title, x axis, curves) of every figure that has a value; at most four runs in each."""
    for kind, axis in AXES.items():
        for first in range(0, len(runs), _TOGETHER):
            chosen = runs[first : first + _TOGETHER]
            part = f"-{first // _TOGETHER + 1}" if len(runs) > _TOGETHER else ""
            for name, title, curves in (
                ("held-out", "Held-out success", [r.curve("success", kind) for r in chosen]),
                ("training", "Training success", [r.training_curve("success", kind) for r in chosen]),
            ):
                if any(curve.points() for curve in curves):
                    yield f"{name}-{kind}{part}", f"{title} by {axis}", axis, curves


def write_comparison(runs: Sequence[ComparedRun], page: Path) -> Path:
    """Write the page and return its path."""
    script, style = "", bundle(_STYLE)
    charts = [
        line_chart(title, curves, percent=True, x_name=axis) for _, title, axis, curves in chart_series(runs)
    ]
    text = (
        templates()
        .get_template("compare.html.j2")
        .render(
            title=clip_note(" · ".join(run.name for run in runs), 160),
            policy=content_policy(script, style),
            style=style,
            charts=charts,
            figures=list(FIGURES.values()),
            rows=[_row(run) for run in runs],
            axes=list(AXES.values()),
            pairs=[_pair(pair) for pair in pairings(runs)],
            problems=[
                clip_note(f"{run.name}: {problem}", 500) for run in runs for problem in run.run.problems[:10]
            ],
        )
    )
    return write_atomically(page, text)


def _row(run: ComparedRun) -> dict[str, object]:
    final = run.final()
    cells = [
        (interval_cell(final.get(name)) or None) if name in _SHARES else _plain(final.get(name))
        for name in FIGURES
    ]
    spent = run.spent()
    return {
        "name": run.name,
        "cells": cells,
        "spent": ["–" if spent[kind] is None else f"{spent[kind]:,.0f}" for kind in AXES],
    }


def _plain(value: dict[str, float] | None) -> dict[str, str] | None:
    if value is None:
        return None
    span = f"[{value['low']:.1f}, {value['high']:.1f}]"
    return {"mean": f"{value['mean']:.1f}", "span": span, "bar": ""}


def _pair(pair: Pairing) -> dict[str, object]:
    return {
        "first": pair.first,
        "second": pair.second,
        "gain": f"{100 * pair.gain.mean:+.1f} points",
        "span": f"[{100 * pair.gain.low:+.1f}, {100 * pair.gain.high:+.1f}]",
        "better": pair.better,
        "worse": pair.worse,
        "n": pair.gain.n,
        "p": "< 0.001" if pair.p < 0.001 else f"{pair.p:.3f}",
        "clear": pair.p < 0.05,
    }


def write_svgs(runs: Sequence[ComparedRun], folder: Path) -> list[Path]:
    """Every figure as an SVG file that stands alone."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_atomically(folder / f"{name}.svg", standalone_svg(title, axis, curves))
        for name, title, axis, curves in chart_series(runs)
    ]


def standalone_svg(title: str, axis: str, curves: Sequence[Series]) -> str:
    """A figure with its own style and legend; names are escaped."""
    figure = str(line_chart(title, curves, percent=True, x_name=axis))
    start = figure.index(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}"')
    body = figure[figure.index(">", start) + 1 : figure.index("</svg>", start)]
    drawn = [curve.name for curve in curves if curve.points()]
    legend = "".join(
        f'<g transform="translate(12,{HEIGHT + 34 + 18 * n})"><svg width="26" height="12" viewBox="0 0 26 12">'
        f'{swatch(n)}</svg><text x="34" y="10" class="name">{escape(name)}</text></g>'
        for n, name in enumerate(drawn)
    )
    height = HEIGHT + 40 + 18 * len(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{2 * height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"><style>{_svg_style()}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="18" class="title">{escape(title)}</text>'
        f'<g transform="translate(0,24)">{body}</g>{legend}</svg>\n'
    )


def _svg_style() -> str:
    rules = [
        ".grid{stroke:#dce1e8}.tick{fill:#586271;font-size:11px}.tick.end{text-anchor:end}",
        ".tick.mid{text-anchor:middle}.line{fill:none;stroke-width:1.8}.band{opacity:.18}.mark{stroke:#fff}",
        ".title{font-size:14px;font-weight:bold;fill:#1a1f26}.name{font-size:12px;fill:#1a1f26}",
    ]
    for n, (colour, dash) in enumerate(zip(_COLOURS, _DASHES, strict=True)):
        rules.append(f".line.s{n}{{stroke:{colour};stroke-dasharray:{dash or 'none'}}}")
        rules.append(f".mark.s{n},.band.s{n}{{fill:{colour}}}")
    return "".join(rules)


def write_pngs(runs: Sequence[ComparedRun], folder: Path) -> list[Path]:
    """Every figure as a PNG file. Raises ``RecordError`` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise RecordError(
            "matplotlib is not installed; --png needs it (--svg does not): pip install 'turnpoint[plots]'"
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, title, axis, curves in chart_series(runs):
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for n, curve in enumerate(curve for curve in curves if curve.points()):
            xs, ys, lows, highs = zip(*curve.points(), strict=True)
            style = {"color": _COLOURS[n], "linestyle": ("-", "--", ":", "-.")[n], "marker": "osD^"[n]}
            axes.plot(xs, [100 * y for y in ys], label=curve.name.replace("$", r"\$"), markersize=4, **style)
            if all(low is not None for low in lows):
                axes.fill_between(
                    xs, [100 * v for v in lows], [100 * v for v in highs], color=_COLOURS[n], alpha=0.15
                )
        axes.set(title=title, xlabel=axis, ylabel="%")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=150)
        written.append(path)
    return written


def sparkline(series: Series) -> str:
    """A curve in one line of text, between 0 and 1."""
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(blocks[min(7, max(0, int(8 * y)))] for _, y, _, _ in series.points())
