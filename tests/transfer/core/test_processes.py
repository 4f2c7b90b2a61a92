"""How a core sees that the process of a receiver has ended."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess

import pytest

from rtmw.transfer.address import Life
from rtmw.transfer.core import process as core
from rtmw.transfer.core.process import Processes
from tests.bus import LONG


@pytest.fixture
def child() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"])


def life_of(child: subprocess.Popen[bytes]) -> Life:
    life = Life.of_process(child.pid)
    assert life is not None
    return life


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_the_end_of_a_process_is_told_also_where_no_descriptor_is_left_for_it(
    child: subprocess.Popen[bytes], has_descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "_LOOK_S", 0.01)
    life = life_of(child)

    async def play() -> frozenset[Life]:
        ended = asyncio.get_running_loop().create_future()
        processes = Processes(ended.set_result)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        if not has_descriptors:
            lowest = os.open("/dev/null", os.O_RDONLY)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            is_watched = processes.watch(life)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert is_watched
        assert processes.watch(life)
        child.kill()
        child.wait()
        async with asyncio.timeout(LONG):
            return await ended

    assert asyncio.run(play()) == {life}


def test_a_process_that_has_ended_is_not_watched(child: subprocess.Popen[bytes]) -> None:
    life = life_of(child)
    child.kill()
    child.wait()

    async def play() -> bool:
        return Processes(lambda _: None).watch(life)

    assert not asyncio.run(play())
