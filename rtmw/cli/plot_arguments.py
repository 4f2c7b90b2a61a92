"""The arguments of `rtmw plot`."""

from __future__ import annotations

import argparse

from rtmw.cli.recording_arguments import add_section, add_strict


def run(arguments: argparse.Namespace) -> int:
    """Plot; see rtmw/cli/plot.py."""
    from rtmw.cli.plot import plot  # numpy and more are only needed here

    return plot(arguments)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    help = "show numbers of recorded messages over time, in the terminal or as a picture"
    parser = commands.add_parser("plot", help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(run=run, topics=None)
    parser.add_argument(
        "members", nargs="+", metavar="TOPIC.member", help="as pump/speed.rpm, imu.rates.x or arm.angles[2]"
    )
    parser.add_argument("path", metavar="PATH", help="a recording, a folder or a pattern")
    parser.add_argument("-o", "--output", metavar="FILE", help="a picture: .png, .svg or .pdf; default: the terminal")
    add_section(parser)
    add_strict(parser)
