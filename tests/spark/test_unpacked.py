"""The path of a worker: archives of Spark give way to the same modules where pip has unpacked them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.spark.python_workers import without_archives


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder into which pip has installed PySpark and Py4J."""
    for made in ("pyspark/__init__.py", "py4j/__init__.py", "py4j-0.10.9.9.dist-info/METADATA"):
        (tmp_path / made).parent.mkdir()
        (tmp_path / made).touch()
    return tmp_path


def path_of(packages: Path, spark: Path) -> list[str]:
    """As Spark makes it, of the archives that lie in `spark`."""
    inside = ("python/lib/pyspark.zip", "python/lib/py4j-0.10.9.9-src.zip", "jars/spark-core_2.13-4.3.0.jar")
    return ["/program", *(str(spark / one) for one in inside), "/usr/lib/python3", str(packages)]


def test_archives_of_what_is_unpacked_are_left_out(installed: Path) -> None:
    left = without_archives(path_of(installed, installed / "pyspark"))
    assert left == ["/program", "/usr/lib/python3", str(installed)]


def test_archives_of_another_spark_stay(installed: Path) -> None:
    path = path_of(installed, Path("/opt/spark"))
    assert without_archives(path) == path


def test_archives_stay_where_nothing_is_unpacked(installed: Path) -> None:
    (installed / "pyspark/__init__.py").unlink()
    path = path_of(installed, installed / "pyspark")
    assert without_archives(path) == path


def test_archives_stay_where_the_unpacked_packages_are_not_on_the_path(installed: Path) -> None:
    path = path_of(Path("/usr/lib/other"), installed / "pyspark")
    assert without_archives(path) == path


def test_the_archive_of_another_py4j_stays(installed: Path) -> None:
    (installed / "py4j-0.10.9.9.dist-info").rename(installed / "py4j-0.10.9.7.dist-info")
    path = path_of(installed, installed / "pyspark")
    assert without_archives(path) == [path[0], path[2], *path[4:]]


def test_other_archives_on_the_path_stay(installed: Path) -> None:
    others = ["/program/parts.zip", str(installed / "pyspark/python/lib/more.zip")]
    assert without_archives([*others, *path_of(installed, installed / "pyspark")])[:2] == others
