"""`rtmw report`: one page of HTML about recordings, by this process or by Spark."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import argument, runs
from rtmw.cli.sources import PARTLY
from rtmw.cli.terminal import in_percent, line, say, show_json
from rtmw.clock import CLOCK
from rtmw.errors import NotInstalled
from rtmw.recording.report.build import facts_of, look_into, write
from rtmw.recording.report.verdict import CHECKS, Check, Level, worst
from rtmw.spark.driver import find_java, own_folder, require_pyspark
from rtmw.text.units import some_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rtmw.recording.report.facts import Contents

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


LEVELS: Final = {"warn": Level.WARN, "fail": Level.FAIL}

LARGE: Final = 200_000_000
"""Messages from which on Spark computes a report, if it is installed: this process would need 4 GB. With half as many
it took a quarter of the time that Spark took on the same machine."""


def _at_least_a_millisecond(text: str) -> float:
    seconds = some_seconds(text)
    if seconds < 0.001:
        raise ValueError(f"{text!r} is shorter than a millisecond")
    return seconds


_every: Final = argument(_at_least_a_millisecond)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one HTML page about recordings: a verdict with its reasons, missing messages by cause, dead "
        "and silent topics, rates, latency, types, files."
    )
    runs(parser, report, domain=False, json=False)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders of them, or patterns")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="default: report.html")
    parser.add_argument("--every", type=_every, metavar="SECONDS", help="of an interval in the plots")
    parser.add_argument(
        "--deadline", type=_every, metavar="SECONDS", help="fail where a message came later than this after another"
    )
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="WHAT",
        help="status 1 if the verdict is so bad (warn, fail), or if a check of this name does not pass (missing, "
        "silence, …); may be given several times",
    )
    parser.add_argument("--spark", action="store_true", help="computed by Spark, however small they are")
    parser.add_argument("--master", metavar="URL", help="by this Spark cluster, such as spark://head:7077")
    parser.add_argument("--json", action="store_true", help="for programs: the path, and the checks, as JSON")


def report(arguments: argparse.Namespace) -> int:
    """Status 1 if the verdict is what --fail-on names; else 3 if something could not be read."""
    unknown = [what for what in arguments.fail_on if what not in (*LEVELS, *CHECKS)]
    if unknown:
        raise CommandError(f"--fail-on {unknown[0]} is none of {', '.join((*LEVELS, *CHECKS))}")
    try:
        checks = _report(arguments)
    except OSError as error:
        told = str(error) if error.errno is None else f"{error.filename}: {error.strerror}"
        raise CommandError(told) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    if arguments.json:
        found = [{"check": check.name, "level": str(check.level), "reason": check.reason} for check in checks]
        show_json({"path": arguments.output, "verdict": str(worst(checks)), "checks": found})
    else:
        _say(arguments.output, checks)
    if any(_is_bad(checks, what) for what in arguments.fail_on):
        return 1
    return PARTLY if _is_bad(checks, "files") else 0


def _is_bad(checks: Sequence[Check], what: str) -> bool:
    """Is it what `--fail-on` names?"""
    if what in LEVELS:
        return worst(checks) >= LEVELS[what]
    return any(check.name == what and check.level > Level.PASS for check in checks)


def _say(output: str, checks: Sequence[Check]) -> None:
    say(f"{output}: {worst(checks)}")
    for check in checks:
        if check.level > Level.PASS:
            say(f"  {check.level}  {check.name}: {check.reason}")


def _report(arguments: argparse.Namespace) -> tuple[Check, ...]:
    begin = CLOCK.monotonic()
    with line() as shown:
        contents = look_into(arguments.paths, arguments.output, in_percent(shown, "looked into"))
        asked = {"every": arguments.every, "deadline": arguments.deadline}
        counted = partial(facts_of, contents, **asked, progress=in_percent(shown, "counted"))
        if not _wants_spark(arguments, contents):
            return write(counted(), arguments.output, CLOCK.monotonic() - begin)
        shown("Spark begins")
        from rtmw.spark.report import fields_in, measure_in  # Spark is only needed here

        with warnings.catch_warnings(), _spark_ends_at_once(arguments.master) as session:
            warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about the newest pandas
            facts = counted(measure=measure_in(session))
            return write(facts, arguments.output, CLOCK.monotonic() - begin, [fields_in(session())])


def _wants_spark(arguments: argparse.Namespace, contents: Contents) -> bool:
    """Whether Spark reads the recording. Where it is not installed, this process reads a large recording, too."""
    if arguments.spark or arguments.master:
        require_pyspark()
        return True
    if contents.run.messages < LARGE:
        return False
    try:
        require_pyspark()
        find_java()
    except NotInstalled:
        return False
    return True


@contextmanager
def _spark_ends_at_once(master: str | None) -> Generator[Callable[[], SparkSession]]:
    """A function that begins Spark. A signal that ends the command kills Spark's processes first.

    Spark installs a handler of its own for Ctrl-C, which talks to the JVM in the middle of another call and prints what
    comes of that; a JVM that is interrupted while it starts never ends by itself; and one that is asked to end takes
    seconds, and logs its tasks' end as errors. What it would have removed then lies in a folder that is removed here.
    """
    before = {number: signal.getsignal(number) for number in ENDINGS}
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        logging.disable(logging.CRITICAL)  # py4j logs with a traceback that it was interrupted
        _kill_children()
        _raise(number)

    def listen() -> None:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, end)

    with own_folder("rtmw-report-") as folder:
        try:
            listen()
            yield lambda: _session(master, str(folder), listen)
        except Exception:
            if came:  # py4j met it and made something else of it
                _raise(came[0])
            raise
        finally:
            logging.disable(logging.NOTSET)
            for number, handler in before.items():
                signal.signal(number, handler)


def _session(master: str | None, folder: str, listen: Callable[[], None]) -> SparkSession:
    import rtmw.spark

    java: dict[str, Any] = {"spark.local.dir": folder, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}"}
    session = rtmw.spark.session(master, name="rtmw report", **java)
    listen()
    return session


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _kill_children() -> None:
    import psutil  # only needed here

    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children)
