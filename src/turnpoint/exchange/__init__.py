"""Trajectories of other tools: reading them as episodes, and writing episodes for them.

Nothing is lost silently: every record or message that cannot be kept is counted with a reason in an ``ExchangeReport``.
"""

from turnpoint.exchange.convert import as_native, native_target
from turnpoint.exchange.formats import (
    Format,
    detect_format,
    format_called,
    format_names,
    read_foreign,
    write_foreign,
)
from turnpoint.exchange.report import ExchangeReport

__all__ = [
    "ExchangeReport",
    "Format",
    "as_native",
    "detect_format",
    "format_called",
    "format_names",
    "native_target",
    "read_foreign",
    "write_foreign",
]
