"""Finding a Java that Spark can use."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw.spark.driver import find_java

MODULES = "java.base jdk.incubator.vector"


def make_java(home: Path, version: str, modules: str = MODULES) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_home_comes_before_path_and_path_before_the_usual_places(tmp_path: Path) -> None:
    named, on_path = make_java(tmp_path / "named", "21.0.1"), make_java(tmp_path / "path", "25")
    usual = make_java(tmp_path / "jvm" / "java-17", "17.0.15")
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, tmp_path / "jvm") == named
    assert find_java({"PATH": str(on_path / "bin")}, tmp_path / "jvm") == on_path
    assert find_java({"PATH": ""}, tmp_path / "jvm") == usual


def test_the_java_of_path_is_found_behind_links(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java-17", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, tmp_path / "none") == home


def test_of_the_usual_places_the_oldest_that_suits_is_taken(tmp_path: Path) -> None:
    for version in ("25.0.3", "1.8.0_392", "17.0.15", "21.0.2"):
        make_java(tmp_path / version, version)
    assert find_java({"PATH": ""}, tmp_path) == tmp_path / "17.0.15"


def test_an_old_java_at_java_home_is_passed_over(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "11.0.2"), make_java(tmp_path / "jvm" / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path / "jvm") == new


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_without_java_it_is_said_what_to_install(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(rtmw.NotInstalled, match=r"Java 17 or newer, and none was found\.[^$]*apt install default-jre"):
        find_java({"PATH": "", "JAVA_HOME": str(tmp_path / folder)}, tmp_path / folder)


def test_what_does_not_suit_is_named_with_the_reason(tmp_path: Path) -> None:
    make_java(tmp_path / "old", "11.0.2")
    make_java(tmp_path / "stripped", "21.0.2", "java.base")
    with pytest.raises(rtmw.NotInstalled) as refused:
        find_java({"PATH": ""}, tmp_path)
    assert f"{tmp_path / 'old'} is Java 11;" in str(refused.value)
    assert f"{tmp_path / 'stripped'} is Java 21 without the module jdk.incubator.vector." in str(refused.value)
