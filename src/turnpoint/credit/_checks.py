"""Input checks shared by the credit functions: every message names the argument, the place and the remedy."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterable, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def finite_vector(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as a float64 vector.

    Raises ValueError when it is not one-dimensional or an entry is not finite; the message names the index.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}; pass one row at a time")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise ValueError(f"{name}[{bad[0]}] is {array[bad[0]]}{more}; every entry must be a finite number")
    return array


def same_length(name_a: str, a: Sized, name_b: str, b: Sized) -> None:
    """Raise ValueError with both lengths unless they agree; nothing is ever cut to the shorter one."""
    if len(a) != len(b):
        raise ValueError(f"{name_a} has length {len(a)} but {name_b} has length {len(b)}; they must match")


def paired_vectors(
    a: npt.ArrayLike, name_a: str, b: npt.ArrayLike, name_b: str
) -> tuple[FloatArray, FloatArray]:
    """Two finite vectors of equal length."""
    first, second = finite_vector(a, name_a), finite_vector(b, name_b)
    same_length(name_a, first, name_b, second)
    return first, second


def per_token(advantage: npt.ArrayLike, length: int) -> FloatArray:
    """Return ``advantage`` (one number for the row, or one per token) as a vector of ``length`` tokens."""
    array = np.asarray(advantage, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(length, float(array))
    vector = finite_vector(array, "advantage")
    if vector.size != length:
        raise ValueError(
            f"advantage has length {vector.size} but the row has {length} entries; they must match"
        )
    return vector


def finite(value: float, name: str) -> float:
    """Return ``value`` as a float, or raise ValueError when it is NaN or infinite."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; set a finite number")
    return number


def within(value: float, name: str, low: float, high: float) -> float:
    """Return ``value`` when ``low <= value <= high``, otherwise raise ValueError."""
    number = finite(value, name)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number}; set a number from {low:g} to {high:g}")
    return number


def positive(value: float, name: str) -> float:
    """Return ``value`` when it is finite and above 0, otherwise raise ValueError."""
    number = finite(value, name)
    if number <= 0:
        raise ValueError(f"{name} is {number}; set a number above 0")
    return number


def count(value: int, name: str, low: int = 0) -> int:
    """Return ``value`` as an int of at least ``low``; bools and fractions are refused."""
    if isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is {value!r}; set an integer of at least {low}")
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; set an integer of at least {low}") from None
    if number < low:
        raise ValueError(f"{name} is {number}; set an integer of at least {low}")
    return number


def choice(value: str, name: str, allowed: Sequence[str]) -> str:
    """Return ``value`` when it is one of ``allowed``, otherwise raise ValueError listing them."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; set one of {', '.join(map(repr, allowed))}")
    return value


def keys(labels: Iterable[Any], name: str) -> list[Hashable]:
    """Group labels as hashable Python values; NumPy arrays are unpacked."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    for index, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"{name}[{index}] is a {type(value).__name__}, which cannot label a group; "
                "pass a string, number or tuple"
            ) from None
    return values
