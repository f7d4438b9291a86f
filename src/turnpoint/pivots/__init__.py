"""Finding and measuring pivotal turns: oracle pivots, intervals, and what an evaluation reports."""

from turnpoint.pivots.chains import ChainSummary, preference_groups, success_at, summarise_chains
from turnpoint.pivots.information import (
    GainsOfTurn,
    TurnGain,
    gains_by_turn,
    information_gain,
    name_best_actions,
)
from turnpoint.pivots.oracle import first_oracle_pivot, oracle_pivots, wasted_turns
from turnpoint.pivots.statistics import Interval, bootstrap_interval
from turnpoint.pivots.summary import EpisodeSummary, summarise

__all__ = [
    "ChainSummary",
    "EpisodeSummary",
    "GainsOfTurn",
    "Interval",
    "TurnGain",
    "bootstrap_interval",
    "first_oracle_pivot",
    "gains_by_turn",
    "information_gain",
    "name_best_actions",
    "oracle_pivots",
    "preference_groups",
    "success_at",
    "summarise",
    "summarise_chains",
    "wasted_turns",
]
