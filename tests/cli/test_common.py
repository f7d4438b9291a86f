from __future__ import annotations

import pytest
import typer

from turnpoint.cli.common import user_faults
from turnpoint.config import ConfigError


def test_what_was_noted_on_a_fault_is_said_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigError("memory ran out")
    error.add_note("step 3: 12 finished episodes are lost")
    with pytest.raises(typer.Exit), user_faults():
        raise error
    assert capsys.readouterr().err == "turnpoint: memory ran out\nstep 3: 12 finished episodes are lost\n"
