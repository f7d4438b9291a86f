"""Scorers of reasoning-gym that would run an answer as Python: they read it as a value or a formula instead.

Some call ``eval`` on the answer, others sympy's ``parse_expr``, which evaluates what it parses.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from typing import Any

from turnpoint.envs.protocol import EnvDataError

_EVALUATES = re.compile(r"\b(eval|exec|parse_expr|sympify)\s*\(")
_OWN_TEXT_ONLY = frozenset({"number_sorting"})
"""Scorers that evaluate their own answer and never the agent's."""
LITERALS = frozenset({"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"})
FORMULAS = frozenset(
    {"countdown", "puzzle24", "simple_integration", "intermediate_integration", "polynomial_multiplication"}
)
_LONGEST = 500
_NAME = re.compile(r"[A-Za-z]\w*")
_FORMULA = re.compile(r"[\w\s+\-*/^().,=]*", re.ASCII)
_FUNCTIONS = frozenset(
    name
    for row in (
        ("exp", "log", "ln", "sqrt", "pi", "sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan"),
        ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "Abs"),
    )
    for name in row
)
_HIGHEST_POWER = re.compile(r"\*\*\s*\(?\s*\d{4,}|\*\*[^*]*\*\*[^*]*\*\*")


def guard(name: str, dataset: Any) -> None:
    """Make a dataset's scorer safe. Raises ``EnvDataError`` if it evaluates answers in a way that is not known."""
    module = sys.modules[type(dataset).__module__]
    short = module.__name__.rpartition(".")[2]
    if short in LITERALS:
        module.__dict__["eval"] = ast.literal_eval
        return
    source = inspect.getsource(type(dataset).score_answer)
    if short not in FORMULAS | _OWN_TEXT_ONLY and _EVALUATES.search(source):
        raise EnvDataError(
            f"the scorer of dataset '{name}' runs answers as Python, in a way that this version does not know how to "
            "make safe; leave it out of env.datasets"
        )


def presentable(dataset: Any, answer: str) -> bool:
    """Whether an answer may reach the scorer: a formula without names that could be functions of Python."""
    if type(dataset).__module__.rpartition(".")[2] not in FORMULAS:
        return True
    names = _NAME.findall(answer)
    return (
        len(answer) <= _LONGEST
        and _FORMULA.fullmatch(answer) is not None
        and all(len(name) == 1 or name in _FUNCTIONS for name in names)
        and "_" not in answer
        and not re.search(r"[A-Za-z)]\s*\.", answer)
        and not _HIGHEST_POWER.search(answer)
    )
