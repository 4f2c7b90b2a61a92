"""The arguments of `rtmw replay`."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rtmw.cli.quantities import count, moment, natural, positive, seconds, seconds_or_0
from rtmw.cli.recording_arguments import add_strict
from rtmw.qos import PRIORITIES, Reliability
from rtmw.units import some_seconds

CLOCK_HZ: Final = 40.0
"""Messages on the topic `clock` a second of the recording, as many as rosbag2 publishes."""


def run(arguments: argparse.Namespace) -> int:
    """Play; see rtmw/cli/replay.py."""
    from rtmw.cli.replay import replay  # numpy and more are only needed here

    return replay(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders or patterns, played as one")
    parser.add_argument("--rate", type=rate, default=1.0, metavar="N", help="times real time; max: as fast as taken")
    parser.add_argument("--start", type=moment, metavar="MOMENT", help="seconds since it began, or date and time (UTC)")
    parser.add_argument("--start-offset", type=moment, dest="start", metavar="SECONDS", help="--start, as rosbag2 says")
    parser.add_argument("--end", type=moment, metavar="MOMENT", help="likewise; default: to the end")
    parser.add_argument("--loop", action="store_true", help="again and again")
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all, but those of rtmw itself")
    parser.add_argument("--remap", nargs="+", type=renaming, metavar="OLD=NEW", help="play topics under other names")
    parser.add_argument("--fresh", action="store_true", help="with source times of now instead of the recorded ones")
    parser.add_argument(
        "--qos",
        nargs="+",
        type=quality,
        metavar="PATTERN:NAME=VALUE,...",
        help="QoS other than recorded",
    )
    parser.add_argument("--max-blocking", type=seconds_or_0, metavar="SECONDS", help="for full RELIABLE subscribers")
    parser.add_argument(
        "--spin", type=seconds_or_0, metavar="TIME", help="awake before each message; 0: none (learned)"
    )
    parser.add_argument(
        "--clock",
        nargs="?",
        type=positive,
        const=CLOCK_HZ,
        metavar="HZ",
        help=f"publish the recording's time on the topic clock, so many times in a second of it ({CLOCK_HZ:g})",
    )
    parser.add_argument("--wait", type=count, metavar="N", help="first wait until each topic has N subscribers")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="to wait for them (default: for ever)")
    parser.add_argument("--paused", action="store_true", help="wait for a key")
    add_strict(parser)


def rate(text: str) -> float | None:
    """Times real time, or None for `max`."""
    if text == "max":
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e6:
        raise argparse.ArgumentTypeError(f"{text} is no rate: a number above 0, or max")
    return number


def renaming(text: str) -> tuple[str, str]:
    """OLD=NEW."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"{text} is no renaming: OLD=NEW")
    return old, new


def quality(text: str) -> tuple[str, dict[str, Any]]:
    """PATTERN:name=value,name=value."""
    pattern, colon, settings = text.rpartition(":")
    if not (pattern and colon and settings):
        raise argparse.ArgumentTypeError(f"{text} is no QoS: PATTERN:reliability=RELIABLE,history=1")
    options: dict[str, Any] = {}
    for setting in settings.split(","):
        name, _, value = setting.partition("=")
        options[name] = _setting(name, value)
    return pattern, options


def _setting(name: str, value: str) -> Any:
    try:
        match name:
            case "reliability":
                return Reliability[value.upper()]
            case "lifetime":
                return None if value == "none" else some_seconds(value)
            case "priority" | "depth" | "history":
                return natural(value)
            case _:
                pass
    except KeyError:
        known = ", ".join(item.name for item in Reliability)
        raise argparse.ArgumentTypeError(f"{name}={value} is not possible; there are {known}") from None
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(f"{name}={value} is not possible: {error}") from None
    known = f"priority (0 to {PRIORITIES - 1}), lifetime, reliability, depth, history"
    raise argparse.ArgumentTypeError(f"{name} cannot be changed; there are {known}")
