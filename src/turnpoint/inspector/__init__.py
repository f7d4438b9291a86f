"""Looking at runs: a report page about a whole run. Needs no torch."""

from turnpoint.inspector.report import write_run_report

__all__ = ["write_run_report"]
