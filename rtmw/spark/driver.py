"""The Spark session of this program, and the data source "rtmw" in it."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from rtmw.optional import needed
from rtmw.spark.folders import own_folder
from rtmw.spark.java import find_java
from rtmw.spark.quiet import UNIX_SOCKETS, workers_by_tcp
from rtmw.spark.workers import check_server, prepare_workers, source_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

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
    Connect, a task looks whether the workers find rtmw.
    `where` on `spark.read.format("rtmw")` reads all, unless `spark.sql.python.filterPushdown.enabled` is true there;
    on `rtmw.spark.read` it reads what is asked for in any case.
    Errors: NotInstalled, with what is missing, or to be set.
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
