"""Detectors: who says which turns of an episode were pivotal, and how surely; each is measured by ``diagnose``."""

from turnpoint.pivots.detectors.protocol import (
    Detection,
    Detector,
    DetectorFailure,
    DetectorSettings,
    Sample,
    Sources,
    detector_registry,
)

__all__ = [
    "Detection",
    "Detector",
    "DetectorFailure",
    "DetectorSettings",
    "Sample",
    "Sources",
    "detector_registry",
]
