"""Waiting times between retries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.teachers.wire import retry_after, wait_seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("2.5", 2.5), ("-3", 0.0), ("nan", None), ("inf", None), ("soon", None), ("", None)],
)
def test_retry_after_in_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_after(value) == seconds


def test_retry_after_as_a_date() -> None:
    later = retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert later is not None
    assert 50 < later <= 60
    assert retry_after("Mon, 01 Jan 2001 00:00:00 GMT") == 0.0


@given(st.integers(0, 2000), st.floats(0, 10), st.floats(0, 100))
def test_back_off_doubles_up_to_its_limit(attempt: int, base: float, most: float) -> None:
    full = min(base * 2.0 ** min(attempt, 30), most)
    assert full / 2 <= wait_seconds(None, attempt, base, most) <= full


@given(st.floats(0, 1e6), st.integers(0, 50))
def test_what_the_server_asks_for_is_the_least_wait(asked: float, attempt: int) -> None:
    assert asked <= wait_seconds(asked, attempt, 1.0, 2.0) <= asked * 1.1
