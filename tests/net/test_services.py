"""Services that a node hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rtmw.net.services import MODULES, Services
from rtmw.net.settings import Settings


def test_the_last_line_of_a_service_is_its_reason_also_behind_an_empty_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULES, "transfer", "tests.net.terse_service")

    async def run() -> None:
        services = Services(Settings(serve=("transfer",), data=tmp_path))
        async with asyncio.timeout(60), services:
            while services.rows()[0]["starts"] < 2:
                await asyncio.sleep(0.01)
            assert services.rows()[0]["why"] == "the error that came of it"

    asyncio.run(run())
