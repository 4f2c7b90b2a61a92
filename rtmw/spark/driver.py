"""The Spark session of this program, the data source "rtmw" in it, and the Java that it runs on.

Its folders under TMPDIR are there for the time of the program; those that a killed program has left are removed by the
next one.

The owner holds a lock of the kernel on a file in its folder, which ends with the process however it ends.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING
from weakref import WeakSet

from rtmw.errors import NotInstalled, needed
from rtmw.locks import FileLock
from rtmw.spark.python_workers import UNIX_SOCKETS, check_server, prepare_workers, source_folder, workers_by_tcp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


_LOCK, _NEW = "owner", "new owner"


@contextmanager
def own_folder(prefix: str) -> Generator[Path]:
    """A new folder that only this user may enter, removed at the end. Those of the prefix without an owner go first."""
    _sweep(prefix)
    folder = Path(mkdtemp(prefix=prefix))
    lock = FileLock(os.open(folder / _NEW, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    lock.take()
    (folder / _NEW).rename(folder / _LOCK)  # under this name only when it is locked: others look for it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def _sweep(prefix: str) -> None:
    for folder in Path(gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # of another user, or another program is just removing it
            if folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink():
                _remove_unowned(folder)


def _remove_unowned(folder: Path) -> None:
    """A folder without its file is just being made, or removed by its owner: it is left alone (FileNotFoundError)."""
    with FileLock(os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)) as lock:
        if lock.take():
            shutil.rmtree(folder, ignore_errors=True)


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


ALWAYS = {
    "spark.sql.execution.python.udf.buffer.size": "1048576",  # of the sockets to the workers: fewer calls a batch
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""What a session of ours has. A session that was made elsewhere keeps its own settings."""

GIB = 1 << 30
SOCKET, LONGEST_SOCKET = ".00000000-0000-0000-0000-000000000000.sock", 107
"""A name such as Spark gives to its sockets, and how long the path of one may be."""

UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark knows how many rows a batch has, and asks for a null before it asks for a value: Arrow need not look again."""


def require_pyspark() -> None:
    """NotInstalled names what is missing, and the command that installs it."""
    for module, package in (("pyspark", "PySpark"), ("pyarrow", "PyArrow"), ("pandas", "pandas")):
        needed(module, package, "spark", "rtmw.spark")


def sensible_memory() -> str:
    """A quarter of this machine for the JVM, from 1 to 8 GiB: Python's workers and shared memory need the rest."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(machine // 4, GIB), 8 * GIB) >> 20}m"


def worker_settings() -> dict[str, str]:
    """Workers import what this program imports: the rtmw of its folder, if that is not the installed one."""
    folder = source_folder()
    if folder is None:
        return {}
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))}


@cache
def sockets_folder() -> str | None:
    """Returns a folder of this program alone, which goes with it; None: names in it would be too long for a socket."""
    with ExitStack() as opened:
        folder = opened.enter_context(own_folder("rtmw-spark-"))
        if len(str(folder / SOCKET)) > LONGEST_SOCKET:
            return None
        atexit.register(opened.pop_all().close)
    return str(folder)


def worker_sockets() -> dict[str, str]:
    """How rows come from the workers: Unix sockets cost both sides less than TCP's."""
    folder = sockets_folder()
    if folder is None:
        return {}
    return {UNIX_SOCKETS: "true", "spark.python.unix.domain.socket.dir": folder}


def local_settings() -> dict[str, str]:
    """All of it inside of this machine: nothing listens on the network."""
    return {
        **worker_sockets(),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": sensible_memory(),
        "spark.python.daemon.module": "rtmw.spark.daemon",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }


def settings(master: str, name: str, ui: bool) -> dict[str, str]:
    """The settings with which a new session is made, before the caller's own.

    Options of Java go where Spark has its defaults, so that they add to the caller's `extraJavaOptions`.
    """
    quiet = Path(__file__).with_name("log4j2.properties").as_uri()
    always = {
        "spark.master": master,
        "spark.app.name": name,
        "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={quiet} {UNCHECKED_ARROW}",
        "spark.executor.defaultJavaOptions": UNCHECKED_ARROW,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        **ALWAYS,
        **worker_settings(),
    }
    return always | local_settings() if master.startswith("local") else always


@contextmanager
def environment(values: Mapping[str, str]) -> Generator[None]:
    """The environment in which the JVM starts, and all that it starts; ours is afterwards as it was."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def jvm_environment(local: bool) -> dict[str, str]:
    """Returns the variables that give the JVM its Java and, where workers are children of this machine's JVM, them
    this Python."""
    values = {"JAVA_HOME": str(find_java())}
    if local:
        values |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return values


def check_names(conf: Mapping[str, object]) -> None:
    for name in conf:
        if not name.startswith("spark."):
            raise TypeError(f"{name!r} is no setting; there are master, name, memory, ui, and Spark's own, spark.…")


def session(
    master: str | None = None, *, name: str = "rtmw", memory: str | None = None, ui: bool = False, **conf: object
) -> SparkSession:
    """A Spark session that knows the format "rtmw": the running one, or a new one.

    `master`: as Spark names it, None: that of spark-submit, else all cores of this machine. `memory`: of the JVM, as
    "4g". `ui`: serve Spark's web page. Settings of Spark go by their names: `**{"spark.sql.shuffle.partitions": 8}`.
    On one machine all listens on loopback only, and workers run this Python with this rtmw.

    Errors: NotInstalled (no PySpark or no Java, and what to install), TypeError for an unknown setting.
    """
    check_names(conf)
    require_pyspark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return registered(running)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = {**ALWAYS, **worker_settings()} if submitted else settings(master or "local[*]", name, ui)
    if submitted and master is not None:
        chosen["spark.master"] = master
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    chosen |= {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in conf.items()}
    return register(started(chosen, submitted))


def started(chosen: Mapping[str, str], submitted: bool) -> SparkSession:
    from pyspark.sql import SparkSession

    builder: SparkSession.Builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    if submitted:
        return builder.getOrCreate()
    with environment(jvm_environment(chosen["spark.master"].startswith("local"))):
        return builder.getOrCreate()


_registered: WeakSet[SparkSession] = WeakSet()


def registered(session: SparkSession) -> SparkSession:
    """The session, which is registered if it is not: that asks the JVM several times."""
    return session if session in _registered else register(session)


def register(session: SparkSession) -> SparkSession:
    """Make the format "rtmw" known to a session that was made elsewhere, whose settings stay as they are.

    On one machine its workers run this Python from now on. On a cluster, and on the server of a session of Spark
    Connect, a task looks whether the workers find rtmw. Errors: NotInstalled, with what is missing, or to be set.
    """
    require_pyspark()
    from rtmw.spark.datasource import RtmwDataSource

    context = getattr(session, "_sc", None)
    if context is None:  # of Spark Connect, whose server has the workers
        check_server(session)
    else:
        prepare_workers(context)
    with workers_by_tcp(session):  # the first one that is registered makes the JVM look for others, in a worker
        _make_known(session, RtmwDataSource)
    _registered.add(session)
    return session


def _make_known(session: SparkSession, source: type[DataSource]) -> None:
    """Register the data source. Spark registers one name once for all sessions of a program that `newSession` makes,
    and finds it in the first one alone; `rtmw.spark.read` needs no name, and so reads in each of them."""
    from pyspark.errors import AnalysisException

    try:
        session.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
