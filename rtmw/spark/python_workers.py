"""The Python of a session's workers: it has to find this rtmw, imports what lies unpacked, and ends without a word.

A worker's connection is closed by Spark when a task has rows enough, as for `show()` or `limit()`, when a worker had
nothing to do for a minute, and when the session ends. PySpark's worker finds out when it sends the next rows, or its
last answer: its daemon would print a traceback among the output of the program.

Spark puts pyspark.zip, the zip of py4j and a jar in front of the path of its workers. Python compiles what it imports
from an archive anew in each process, and reads the directories of all archives again when a worker gets its first task.
Installed by pip, the same modules lie unpacked and compiled around the archives.
"""

from __future__ import annotations

import logging
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, Final
from zipimport import zipimporter

from rtmw.errors import NotInstalled

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    Worker = Callable[[socket, bool], int]


UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def quiet(worker: Worker) -> Worker:
    """PySpark's, with a code instead of the error that the connection is closed; such a worker is not used again."""

    def quietly(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return quietly


def quiet_planner() -> None:
    """In a worker that plans for a data source, from its next call on; elsewhere nothing.

    Spark forks such workers from PySpark's own daemon, whatever daemon is set.
    """
    daemon: Any = sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) == "pyspark.daemon":
        daemon.worker = quiet(daemon.worker)


@contextmanager
def workers_by_tcp(session: SparkSession) -> Generator[None]:
    """Has the JVM reach its workers by TCP within the block, for workers that run nothing of rtmw: a worker's last
    answer into a closed connection of TCP is no error.

    The JVM asks for this setting whenever it starts a daemon of workers.
    """
    context: Any = getattr(session, "_sc", None)  # None: of Spark Connect, whose server has the workers
    settings = context and context._jsc.sc().conf()
    if settings is None or settings.get(UNIX_SOCKETS, "false") != "true":
        yield
        return
    settings.set(UNIX_SOCKETS, "false")
    try:
        yield
    finally:
        settings.set(UNIX_SOCKETS, "true")


def prefer_unpacked() -> None:
    """Takes the archives off `sys.path`, if nothing has been imported from them and the same is there unpacked."""
    if "pyspark" not in sys.modules:
        sys.path[:] = without_archives(sys.path)
        sys.modules.pop("org", None)  # the jar's, where the standard library looks for Jython
        # Finders of archives would read these again, although no path names them.
        kept = {one: finder for one, finder in sys.path_importer_cache.items() if not isinstance(finder, zipimporter)}
        sys.path_importer_cache.clear()
        sys.path_importer_cache.update(kept)


def without_archives(path: Iterable[str]) -> list[str]:
    """A path without the archives of a PySpark and a Py4J that lie unpacked in one of its folders."""
    found = [*path]
    zips = [one for one in found if one.endswith("pyspark.zip")]
    needless = {archive for zip in zips for archive in found if _is_unpacked(Path(zip), Path(archive), found)}
    return [one for one in found if one not in needless]


def _is_unpacked(zip: Path, archive: Path, path: list[str]) -> bool:
    """`zip`: of PySpark, which its package has in python/lib when pip has installed it."""
    package = zip.parent.parent.parent
    if package.name != "pyspark" or str(package.parent) not in path or not (package / "__init__.py").is_file():
        return False
    if archive.parent == package / "jars":
        return archive.suffix == ".jar"  # it has no modules
    if archive.name.startswith("py4j-"):
        return archive.parent == zip.parent and _has(package.parent, archive.name.removesuffix("-src.zip"))
    return archive == zip


def _has(folder: Path, release: str) -> bool:
    """Pip has installed this release of Py4J here."""
    return (folder / f"{release}.dist-info").is_dir() and (folder / "py4j" / "__init__.py").is_file()


_PROBE: Final = "lambda numbers: [__import__('importlib.util').util.find_spec('rtmw') is not None for _ in numbers]"
"""Made from text, so that a worker gets the function itself and not its place in rtmw."""

_SERVER_PROBE: Final = (
    "lambda batches: (__import__('pyarrow').RecordBatch.from_pydict({'found': ["
    "__import__('importlib.util').util.find_spec('rtmw') is not None]}) for _ in batches)"
)

MISSING: Final = (
    "the Python of the executors cannot import rtmw{why}. Before the session begins, set spark.pyspark.python (or "
    "PYSPARK_PYTHON) to a Python that has rtmw[spark] on every host, or spark.executorEnv.PYTHONPATH to its folder"
)

MISSING_SERVER: Final = (
    "the Python of the Spark Connect server cannot import rtmw{why}. Before the server starts, set PYSPARK_PYTHON (or "
    "spark.pyspark.python) there to a Python that has rtmw[spark], of the version that runs here"
)

SPECULATES: Final = (
    "spark.speculation is on: Spark may run copies of slow tasks on other hosts, and a copy of one that publishes rows "
    "publishes them a second time. Leave it off in sessions that write or replay"
)

log = logging.getLogger("rtmw")

_checked: set[str] = set()
"""Applications whose workers find it."""


def source_folder() -> str | None:
    """The folder that workers need on their path to import this rtmw; None where it is installed."""
    folder = Path(__file__).parents[2]
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return None if str(folder) in [*installed, site.getusersitepackages()] else str(folder)


def prepare_workers(context: SparkContext) -> None:
    """On this machine, makes workers run the Python that runs here; on a cluster, makes sure, once, that they find
    rtmw, and warns of a setting that doubles messages.

    Raises NotInstalled, with what to set.
    """
    if re.match(r"local(\[|$)", context.master or ""):
        _use_this_python(context)
    elif context.applicationId not in _checked:
        _check_executors(context)
        _checked.add(context.applicationId)
        if context.getConf().get("spark.speculation", "false") == "true":
            log.warning(SPECULATES)


def _use_this_python(context: SparkContext) -> None:
    own: Any = context
    own.pythonExec, own.pythonVer = sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}"
    known = own.environment.get("PYTHONPATH", "").split(os.pathsep)
    folder = source_folder()
    if folder is not None and folder not in known:
        own.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *known]))


def check_server(session: SparkSession) -> None:
    """Runs one task on the server of Spark Connect. Raises NotInstalled, with what to set."""
    rows = session.range(0, 1, 1, 1)
    _check(lambda: rows.mapInArrow(_made(_SERVER_PROBE), "found boolean").collect()[0][0], MISSING_SERVER)


def _check_executors(context: SparkContext) -> None:
    """Runs one task."""
    _check(lambda: context.parallelize([0], 1).mapPartitions(_made(_PROBE)).collect()[0], MISSING)


def _made(probe: str) -> Any:
    return eval(probe, {"__name__": "__main__"})


def _check(is_found: Callable[[], bool], missing: str) -> None:
    try:
        found = is_found()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "Error: " in line or "MISMATCH" in line]
        raise NotInstalled(missing.format(why=f": {lines[-1].strip()}" if lines else "")) from error
    if not found:
        raise NotInstalled(missing.format(why=""))
