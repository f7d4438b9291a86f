"""Faults of one line: what mistakes look like in code, made by rules over its syntax tree.

Nearly every rule has its counterpart among the rules (``<`` becomes ``<=`` and ``<=`` becomes ``<``), so that a list of
the changes that could be made holds the repair among its likes. Changing a rule makes other tasks, and other lists: it
needs another ``BUILDER_VERSION``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">="), ast.Gt: (">=", "<"), ast.GtE: (">", "<="),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",),
    ast.Is: ("is not",), ast.IsNot: ("is",),
}  # fmt: skip
_SPELT: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"), ast.Mod: ("%", "//"),
}  # fmt: skip


class Mutation(NamedTuple):
    """A line with one mistake made, or undone."""

    line: int
    """Number from 1."""
    text: str
    """The whole new line, with its indentation."""
    rule: str
    """Name of the rule."""


class _Span(NamedTuple):
    """Part of one line, by characters."""

    line: int
    start: int
    end: int


def mutations(source: str) -> list[Mutation]:
    """Every mutation of a module, by line, without repetitions; none if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    lines = source.split("\n")
    found: dict[tuple[int, str], Mutation] = {}
    for node in ast.walk(tree):
        for span, text, rule in _changes(node, lines):
            line = lines[span.line - 1]
            changed = line[: span.start] + text + line[span.end :]
            if changed != line and _parses(lines, span.line, changed):
                found.setdefault((span.line, changed), Mutation(span.line, changed, rule))
    return sorted(found.values())


def _parses(lines: list[str], number: int, changed: str) -> bool:
    try:
        ast.parse("\n".join([*lines[: number - 1], changed, *lines[number:]]))
    except (SyntaxError, ValueError):
        return False
    return True


def _changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[_Span, str, str]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if span := _between(left, right, _SPELT[type(op)], lines):
                yield from ((span, text, "comparison") for text in _COMPARED[type(op)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
            spelt, instead = _COMPUTED[type(op)]
            if span := _between(left, right, spelt, lines):
                yield span, instead, "arithmetic"
        case ast.BoolOp(op=op, values=[left, right]):
            spelt, instead = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            if span := _between(left, right, spelt, lines):
                yield span, instead, "boolean operator"
        case ast.Constant(value=value) if isinstance(value, bool):
            yield from _whole(node, str(not value), "boolean constant", lines)
        case ast.Constant(value=int(value)):
            for other in (value + 1, value - 1):
                if other >= 0:
                    yield from _whole(node, str(other), "off by one", lines)
        case ast.If(test=test) | ast.While(test=test):
            yield from _negated(test, lines)
            if isinstance(node, ast.If):
                yield from _branch(node, lines)
        case ast.Return(value=ast.expr() as value):
            yield from _whole(node, _source(value, lines), "dropped return", lines)
        case ast.Expr(
            value=ast.Call() | ast.Name() | ast.BinOp() | ast.Subscript() | ast.Attribute() as value
        ):
            yield from _whole(node, f"return {_source(value, lines)}", "added return", lines)
        case ast.Call(args=[first, second], keywords=[]):
            if span := _one_line(first, second, lines):
                middle = _gap(first, second, lines)
                yield span, f"{_source(second, lines)}{middle}{_source(first, lines)}", "swapped arguments"
        case ast.Break() | ast.Continue():
            keyword = "continue" if isinstance(node, ast.Break) else "break"
            yield from _whole(node, keyword, "loop control", lines)
        case ast.AugAssign(op=ast.Add() | ast.Sub() as op, target=target, value=value):
            spelt, instead = ("+=", "-=") if isinstance(op, ast.Add) else ("-=", "+=")
            if span := _between(target, value, spelt, lines):
                yield span, instead, "arithmetic"
        case _:
            return


def _branch(node: ast.If, lines: list[str]) -> Iterator[tuple[_Span, str, str]]:
    """``elif`` without its ``el``, and ``if`` with it; what does not fit what stands above is no valid line."""
    start = _column(lines, node.lineno, node.col_offset)
    spelt = "elif" if lines[node.lineno - 1].startswith("elif", start) else "if"
    span = _Span(node.lineno, start, start + len(spelt))
    yield span, "if" if spelt == "elif" else "elif", "dropped else"


def _negated(test: ast.expr, lines: list[str]) -> Iterator[tuple[_Span, str, str]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _whole(test, _source(test.operand, lines), "negation", lines)
    elif isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        yield from _whole(test, f"not {_source(test, lines)}", "negation", lines)


def _whole(
    node: ast.expr | ast.stmt, text: str, rule: str, lines: list[str]
) -> Iterator[tuple[_Span, str, str]]:
    if text and (span := _one_line(node, node, lines)):
        yield span, text, rule


def _between(left: ast.expr, right: ast.expr, spelt: str, lines: list[str]) -> _Span | None:
    """Where the operator between two operands stands, if all is in one line."""
    whole = _one_line(left, right, lines)
    if whole is None:
        return None
    gap = _gap(left, right, lines)
    if gap.count(spelt) != 1:
        return None
    start = _column(lines, whole.line, left.end_col_offset or 0) + gap.index(spelt)
    return _Span(whole.line, start, start + len(spelt))


def _gap(left: ast.expr, right: ast.expr, lines: list[str]) -> str:
    line = lines[left.lineno - 1]
    number = left.lineno
    return line[_column(lines, number, left.end_col_offset or 0) : _column(lines, number, right.col_offset)]


def _one_line(first: ast.expr | ast.stmt, last: ast.expr | ast.stmt, lines: list[str]) -> _Span | None:
    number = first.lineno
    if last.end_lineno != number or last.end_col_offset is None:
        return None
    return _Span(
        number, _column(lines, number, first.col_offset), _column(lines, number, last.end_col_offset)
    )


def _source(node: ast.expr, lines: list[str]) -> str:
    span = _one_line(node, node, lines)
    return lines[span.line - 1][span.start : span.end] if span else ""


def _column(lines: list[str], number: int, offset: int) -> int:
    """Characters before a byte offset."""
    return len(lines[number - 1].encode()[:offset].decode("utf-8", "ignore"))
