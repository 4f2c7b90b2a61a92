"""Spark runs on Java: where one is that it can use, and what to install where there is none."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rtmw.errors import NotInstalled

OLDEST = 17
MODULE = "jdk.incubator.vector"
"""Spark's launcher asks for it; a Java that was stripped down has none."""
USUAL_PLACES = Path("/usr/lib/jvm")

WANTED = f"""Spark needs Java {OLDEST} or newer, and none was found{{found}}.
Install one, or point JAVA_HOME at one:
    apt install default-jre-headless       (Debian, Ubuntu)
    dnf install java-latest-openjdk-headless    (Fedora, RHEL)
    conda install openjdk                  (without root)"""


@dataclass(frozen=True)
class Java:
    """A Java as its folder describes it."""

    home: Path
    version: int
    """17 for 17.0.15."""
    complete: bool
    """Has every module that Spark asks for."""

    @property
    def suits(self) -> bool:
        return self.version >= OLDEST and self.complete

    def __str__(self) -> str:
        return f"{self.home} is Java {self.version}" + ("" if self.complete else f" without the module {MODULE}")


def java_in(home: Path) -> Java | None:
    """The Java of a folder, from its file `release`, so that nothing has to be started; None if there is no Java."""
    try:
        described = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', described, re.MULTILINE)
    if version is None or not os.access(home / "bin" / "java", os.X_OK):
        return None
    modules = re.search(r'^MODULES="(.*)"', described, re.MULTILINE)
    return Java(home, int(version[1]), modules is None or MODULE in modules[1].split())


def candidates(environment: Mapping[str, str], usual_places: Path) -> Iterator[Java]:
    """JAVA_HOME, the `java` of PATH, then the usual places, oldest first: what Spark was tried with the longest."""
    homes: list[Path] = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        homes.append(Path(on_path).resolve().parents[1])
    yield from filter(None, map(java_in, homes))
    yield from sorted(filter(None, map(java_in, usual_places.glob("*"))), key=lambda java: (java.version, java.home))


def find_java(environment: Mapping[str, str] = os.environ, usual_places: Path = USUAL_PLACES) -> Path:
    """The folder of a Java that Spark can use, as JAVA_HOME wants it. NotInstalled says what to install."""
    refused: list[Java] = []
    for java in candidates(environment, usual_places):
        if java.suits:
            return java.home
        refused.append(java)
    found = "".join(f"; {java}" for java in dict.fromkeys(refused))
    raise NotInstalled(WANTED.format(found=found))
