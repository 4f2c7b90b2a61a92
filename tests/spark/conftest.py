"""One Spark session for all tests of this folder; the JVM behind it ends with the run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rtmw.spark
from rtmw.spark.driver import find_java, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of each run also waits for its JVM, which takes most of a minute on a machine that is busy."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def java() -> None:
    """Skips, and says what is missing, where Spark cannot run."""
    try:
        require_pyspark()
        find_java()
    except rtmw.NotInstalled as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def workers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Python workers of these tests take for TMPDIR: nobody else writes there."""
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="session")
def spark(java: None, workers_folder: Path) -> Iterator[SparkSession]:
    """A session that knows the format "rtmw": two workers, loopback only, little memory."""
    from pyspark import SparkContext

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("TMPDIR", str(workers_folder))
        own = {"spark.sql.shuffle.partitions": 2, "spark.driver.extraJavaOptions": "-Drtmw.kept=yes"}
        session = rtmw.spark.session("local[2]", memory="1g", **own)
    gateway = SparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
