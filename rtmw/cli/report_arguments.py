"""The arguments of `rtmw report`."""

from __future__ import annotations

import argparse
from typing import Final

from rtmw.cli.quantities import argument
from rtmw.units import some_seconds


def _at_least_a_millisecond(text: str) -> float:
    seconds = some_seconds(text)
    if seconds < 0.001:
        raise ValueError(f"{text!r} is shorter than a millisecond")
    return seconds


_every: Final = argument(_at_least_a_millisecond)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="write a page about recordings: a verdict, what is missing, rates, latency, silences",
        description="Write one HTML page about recordings: a verdict with its reasons, missing messages by cause, dead "
        "and silent topics, rates, latency, types, files.",
    )
    parser.set_defaults(run=_run)
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


def _run(arguments: argparse.Namespace) -> int:
    from rtmw.cli.report import report  # numpy and more are only needed here

    return report(arguments)
