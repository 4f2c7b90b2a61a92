"""The ten thousand tests, collected in less than half of the processor time."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector searches it neither now nor during a test."""
    gc.disable()
    try:
        import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def import_share(config: pytest.Config) -> None:
    """Each worker imports files of its own before it collects all: pytest rewrites their assertions, which takes most
    of the time of a first collection, and the other workers find them in its cache."""
    if not hasattr(config, "workerinput"):
        return
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    named = [Path(argument.partition("::")[0]) for argument in config.args]
    for path in sorted(chain.from_iterable(folder.rglob("test_*.py") for folder in named))[number::count]:
        with suppress(Exception, pytest.skip.Exception):  # collection says why
            import_module(".".join(path.absolute().relative_to(config.rootpath).with_suffix("").parts))
