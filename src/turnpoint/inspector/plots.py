"""Small charts as inline SVG, styled by classes of the page; series differ in colour, dash and mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 26
_MOST_POINTS = 300
_MARKED = 40
"""A series with more points than this is drawn without marks."""


@dataclass(frozen=True, slots=True)
class Series:
    """A named curve; a missing value is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = field(default=())
    """Lower end of an interval at each point, or empty."""
    high: Sequence[float | None] = field(default=())

    def points(self) -> list[tuple[float, float, float | None, float | None]]:
        """(x, y, low, high) where y is a finite number."""
        low, high = self.low or [None] * len(self.x), self.high or [None] * len(self.x)
        return [
            (x, y, lo, hi)
            for x, y, lo, hi in zip(self.x, self.y, low, high, strict=True)
            if y is not None and math.isfinite(y)
        ]


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that cover [low, high], about ``count`` intervals."""
    span = high - low
    if not span > 0:
        return [low]
    rough = span / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((size * m for m in (1, 2, 2.5, 5) if size * m >= rough * 0.999), size * 10)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{step * k:.10g}") for k in range(first, last + 1)]


def whole_ticks(low: float, high: float) -> list[float]:
    """Steps to name on an axis: whole multiples of a round number inside the range, with both ends."""
    if high <= low:
        return [low, low + 1]
    found = ticks(low, high, 5)
    size = max(1.0, float(math.ceil(found[1] - found[0]))) if len(found) > 1 else 1.0
    first = math.ceil(low / size)
    inner = [size * k for k in range(first, math.floor(high / size) + 1)]
    near = 0.06 * (high - low)
    return [low, *(x for x in inner if low + near < x < high - near), high]


def label(value: float, *, percent: bool = False) -> str:
    """A short text for a tick or a value."""
    if percent:
        return f"{100 * value:.4g}%"
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.1e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:.4g}"


def thin(series: Series, most: int = _MOST_POINTS) -> tuple[Series, int]:
    """The series with runs of neighbours averaged to at most ``most`` points, and how many each stands for."""
    size = math.ceil(len(series.x) / most) if series.x else 1
    if size <= 1:
        return series, 1

    def averaged(values: Sequence[float | None]) -> list[float | None]:
        parts = [[v for v in values[i : i + size] if v is not None] for i in range(0, len(values), size)]
        return [sum(part) / len(part) if part else None for part in parts]

    xs = [x for x in averaged(series.x) if x is not None]
    return Series(series.name, xs, averaged(series.y), averaged(series.low), averaged(series.high)), size


def line_chart(
    title: str, series: Sequence[Series], *, percent: bool = False, x_name: str = "step"
) -> Markup:
    """A figure with one curve for each series that has a value; empty if none has."""
    thinned = [thin(item) for item in series]
    drawn = [(item, points) for item, _ in thinned if (points := item.points())]
    if not drawn:
        return Markup("")
    x_ticks, y_ticks = _axes([points for _, points in drawn], percent)
    frame = _Frame(x_ticks[0], x_ticks[-1], y_ticks[0], y_ticks[-1])
    parts = [frame.grid(x_ticks, y_ticks, percent)]
    for number, (item, points) in enumerate(drawn):
        parts.append(frame.curve(item.name, points, number, percent, x_name))
    legend = Markup("").join(
        Markup('<span class="key">{}{}</span>').format(_swatch(number), item.name)
        for number, (item, _) in enumerate(drawn)
    )
    size = max(size for _, size in thinned)
    note = Markup(' <span class="muted">each point averages {} steps</span>').format(size) if size > 1 else ""
    return Markup(
        '<figure class="chart"><figcaption><b>{}</b>{}</figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg><div class="keys">{}</div></figure>'
    ).format(title, note, WIDTH, HEIGHT, title, Markup("").join(parts), legend)


def _axes(
    curves: Sequence[Sequence[tuple[float, float, float | None, float | None]]], percent: bool
) -> tuple[list[float], list[float]]:
    xs = [point[0] for points in curves for point in points]
    ys = [value for points in curves for point in points for value in point[1:] if value is not None]
    low, high = min(ys), max(ys)
    if low >= 0:
        low = 0.0
    if percent:
        high = min(1.0, max(high * 1.05, 0.05))
    if high - low <= max(1e-15, 1e-9 * max(abs(low), abs(high))):
        high = low + max(1.0, abs(low) / 1000)  # one value: any range around it will do
    return whole_ticks(min(xs), max(xs)), ticks(low, high)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps data to the drawing."""

    x0: float
    x1: float
    y0: float
    y1: float

    def px(self, x: float) -> float:
        return round(_LEFT + (x - self.x0) / (self.x1 - self.x0) * (WIDTH - _LEFT - _RIGHT), 1)

    def py(self, y: float) -> float:
        return round(HEIGHT - _BOTTOM - (y - self.y0) / (self.y1 - self.y0) * (HEIGHT - _TOP - _BOTTOM), 1)

    def grid(self, x_ticks: Sequence[float], y_ticks: Sequence[float], percent: bool) -> Markup:
        """Horizontal lines and the labels of both axes."""
        parts = []
        for value in y_ticks:
            y = self.py(value)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
                f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4}">{label(value, percent=percent)}</text>'
            )
        for value in x_ticks:
            parts.append(
                f'<text class="tick mid" x="{self.px(value)}" y="{HEIGHT - 8}">{label(value)}</text>'
            )
        return Markup("".join(parts))

    def curve(
        self,
        name: str,
        points: Sequence[tuple[float, float, float | None, float | None]],
        number: int,
        percent: bool,
        x_name: str,
    ) -> Markup:
        """Band, line and marks of one series."""
        style = f"s{number % 4}"
        parts = []
        band = [(x, lo, hi) for x, _, lo, hi in points if lo is not None and hi is not None]
        if band:
            upper = [f"{self.px(x)},{self.py(hi)}" for x, _, hi in band]
            lower = [f"{self.px(x)},{self.py(lo)}" for x, lo, _ in reversed(band)]
            parts.append(f'<polygon class="band {style}" points="{" ".join(upper + lower)}"/>')
        line = " ".join(f"{self.px(x)},{self.py(y)}" for x, y, _, _ in points)
        parts.append(f'<polyline class="line {style}" points="{line}"/>')
        if len(points) <= _MARKED or band:
            for x, y, lo, hi in points:
                span = (
                    ""
                    if lo is None or hi is None
                    else f" [{label(lo, percent=percent)}, {label(hi, percent=percent)}]"
                )
                tip = escape(f"{name}, {x_name} {x:g}: {label(y, percent=percent)}{span}")
                parts.append(_mark(self.px(x), self.py(y), number, tip))
        return Markup("".join(parts))


def _mark(x: float, y: float, number: int, tip: Markup | str = "") -> str:
    """Circle, square, diamond or triangle: a series is known by shape as well as by colour."""
    style = f"mark s{number % 4}"
    title = f"<title>{tip}</title>" if tip else ""
    if number % 4 == 0:
        return f'<circle class="{style}" cx="{x}" cy="{y}" r="3.2">{title}</circle>'
    if number % 4 == 1:
        return f'<rect class="{style}" x="{x - 2.8:.1f}" y="{y - 2.8:.1f}" width="5.6" height="5.6">{title}</rect>'
    corners = {
        2: ((0, -4), (4, 0), (0, 4), (-4, 0)),
        3: ((0, -4), (3.8, 3), (-3.8, 3)),
    }[number % 4]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="{style}" points="{points}">{title}</polygon>'


def swatch(number: int) -> Markup:
    """A piece of a series' line with its mark."""
    return Markup('<polyline class="line s{}" points="1,6 25,6"/>{}').format(
        number % 4, Markup(_mark(13, 6, number))
    )


def _swatch(number: int) -> Markup:
    return Markup('<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">{}</svg>').format(
        swatch(number)
    )


def interval_bar(mean: float, low: float, high: float) -> Markup:
    """A share with its interval on a 0-100 % line."""

    def at(value: float) -> float:
        return round(4 + 112 * min(1.0, max(0.0, value)), 1)

    return Markup(
        '<svg class="interval" viewBox="0 0 120 14" role="img" aria-label="{} [{}, {}]">'
        '<line class="grid" x1="4" x2="116" y1="7" y2="7"/><line class="span" x1="{}" x2="{}" y1="7" y2="7"/>'
        '<circle class="mark s0" cx="{}" cy="7" r="3.6"/></svg>'
    ).format(*(label(v, percent=True) for v in (mean, low, high)), at(low), at(high), at(mean))
