"""Looking at runs: a report page about a whole run, and the inspector of single episodes. Needs no torch."""

from turnpoint.inspector.page import write_page
from turnpoint.inspector.report import write_run_report
from turnpoint.inspector.serve import InspectorServer, LiveRun
from turnpoint.inspector.store import plan

__all__ = ["InspectorServer", "LiveRun", "plan", "write_page", "write_run_report"]
