"""Finding and measuring pivotal turns: oracle pivots, intervals, and what an evaluation reports."""

from turnpoint.pivots.oracle import first_oracle_pivot, oracle_pivots, wasted_turns
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.pivots.summary import EpisodeSummary, summarise

__all__ = [
    "EpisodeSummary",
    "Interval",
    "bootstrap_interval",
    "first_oracle_pivot",
    "oracle_pivots",
    "summarise",
    "wasted_turns",
]
