"""Conformance suite: the assertions that every policy backend must meet, through the ``Policy`` protocol alone.

``run_conformance(factory)`` makes a policy, asks it everything below and says what it measured. The policy must learn
visibly in one step (a learning rate of about 1e-3 for tiny models, 1e-5 and more for large ones), take all rows of an
update in one optimizer step, and normalise its loss by ``token-mean``.
"""

from turnpoint.testing.conformance.bench import BF16, FP32, Bench, Bounds
from turnpoint.testing.conformance.outcome import Assertion
from turnpoint.testing.conformance.suite import ASSERTIONS, assert_conforms, run_conformance

__all__ = ["ASSERTIONS", "BF16", "FP32", "Assertion", "Bench", "Bounds", "assert_conforms", "run_conformance"]
