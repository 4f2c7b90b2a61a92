"""What tests of commands share."""

from __future__ import annotations

import pytest

from rtmw.cli import main
from tests.cli.command import Run
from tests.transfer.programs.conftest import core, sender

__all__ = ["core", "run", "sender"]


@pytest.fixture
def run(domain_id: int, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the test's domain: its status, what it printed, and what it complained about."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        return status, *capsys.readouterr()

    return call
