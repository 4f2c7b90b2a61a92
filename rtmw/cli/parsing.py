"""How commands are declared and their words read: each command brings its arguments, which are added when it is used.

A table names the commands of one place and their homes, `module:what` below rtmw.cli: a function that adds the
arguments of one command and says what runs it, or the table of further commands. Only the module of a command that is
used is imported, so `rtmw topic list` waits neither for numpy nor for what nodes need. `main` of rtmw.cli begins with
the table of rtmw.cli.command.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast

from rtmw.domain import LARGEST_ID, environment_domain
from rtmw.errors import RtmwError
from rtmw.settings import Declaration, Setting, option_of, values
from rtmw.text.addresses import place_to_listen, place_to_reach, unix_path
from rtmw.text.units import some_bytes, some_seconds
from rtmw.text.visible import visible

T = TypeVar("T")
Commands: TypeAlias = Mapping[str, tuple[str, str]]
"""By the name of a command: its home, and what it does, as its help begins."""


class Parser(argparse.ArgumentParser):
    """Parses a command. Names the nearest command or choice for a mistyped one, and says in visible text what it was
    given."""

    home = ""
    """Where its arguments are; empty: it has them."""

    def complete(self) -> None:
        """Adds the arguments, or the commands, unless it has them."""
        home, self.home = self.home, ""
        if home:
            module, _, name = home.partition(":")
            found = getattr(import_module(f"rtmw.cli.{module}"), name)
            found(self) if callable(found) else add_commands(self, found)

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        if commands := commands_of(self):
            words = given[0] if given else named.get("args")
            self._check_place(sys.argv[1:] if words is None else list(words), commands)
        parsed, unknown = super().parse_known_args(*given, **named)
        if unknown:  # told with the usage of this command, and not by the first parser with its own
            self.error(f"unknown arguments: {' '.join(unknown)}")
        return parsed, unknown

    def _check_place(self, words: list[str], commands: dict[str, Parser]) -> None:
        """Refuses an option of a command that stands before the command, with the words as they belong."""
        first = words[0] if words else ""
        if not first.startswith("-") or first in ("-", "--") or self._knows(first):
            return
        at = next((at for at, word in enumerate(words) if word in commands), len(words))
        before, behind, meant, whole = words[:at], words[at:], self, self.prog.split()
        while behind and behind[0] in (commands := commands_of(meant)):
            meant = commands[behind[0]]
            whole.append(behind.pop(0))
        option = first.partition("=")[0]
        if meant is not self:
            meant.complete()
            if not meant._knows(first):
                meant.error(f"unknown arguments: {option}")
            self.error(f"{option} belongs behind the command: {shlex.join([*whole, *before, *behind])}")
        if not self.get_default("run"):
            advice = f"an option of a command belongs behind it: {shlex.join([*whole, 'COMMAND', *before])}"
            self.error(f"{self.prog} has no option {option}; {advice}")

    def _knows(self, word: str) -> bool:
        """Whether a word is one of its options, perhaps short for one, or with its value."""
        return word in self._option_string_actions or bool(self._get_option_tuples(word))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if isinstance(arg_string, _OfEnvironment):
            try:
                return environment_domain()
            except ValueError as error:
                self.error(str(error))
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            from difflib import get_close_matches  # only needed here

            choices = map(str, action.choices or ())
            meant = _deeper(action, str(value)) or get_close_matches(str(value), choices, n=1)
            if not meant:
                raise
            whole = [f"`{self.prog} {one}`" if action.nargs == argparse.PARSER else f"`{one}`" for one in meant]
            said = f"there is no {value!r}; did you mean {' or '.join(whole)}?"
            raise argparse.ArgumentError(action, said) from None

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


class _OfEnvironment(str):
    """The default of --domain. Only a command that is run without that option reads the variable."""


def commands_of(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """The commands of a command, by their names, each with its arguments."""
    if isinstance(parser, Parser):
        parser.complete()
    for action in parser._actions:
        if action.nargs == argparse.PARSER:
            return cast("dict[str, Parser]", action.choices)
    return {}


def _deeper(action: argparse.Action, word: str) -> list[str]:
    """The commands that have a command of this name, each with it: `topic echo` for `echo`."""
    if action.nargs != argparse.PARSER:
        return []
    found = list[str]()
    for name, parser in cast("dict[str, Parser]", action.choices).items():
        with suppress(ImportError, RtmwError):  # it needs a package that is not installed
            found += [f"{name} {word}"] if word in commands_of(parser) else []
    return found


def add_commands(parser: argparse.ArgumentParser, table: Commands, *, required: bool = True) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=required)
    for name, (home, help) in table.items():
        command = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        cast(Parser, command).home = home


def runs(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], *, domain: bool = True, json: bool = True
) -> None:
    """Says what runs a command, with its arguments, for its status. `domain` and `json`: it has these options."""
    parser.set_defaults(run=run)
    if domain:
        parser.add_argument(
            "--domain",
            type=domain_number,
            default=_OfEnvironment(os.environ.get("RTMW_DOMAIN", "0")),
            metavar="N",
            help="number of the domain (default: environment RTMW_DOMAIN, else 0)",
        )
    if json:
        parser.add_argument(
            "--json", action="store_true", help="for programs: JSON; one object a line where it streams"
        )


NODE: Final = "127.0.0.1:7501"
"""Where a node of a replicated log listens, if nobody says where."""


ANY_OF: Final = "HOST:PORT or unix:PATH; of several, with commas between, the first that is reached is asked"
"""What `--node` takes where one node is asked."""


def node_places(text: str) -> tuple[str, ...]:
    """The places of nodes, with commas between them. Raises ValueError."""
    places = tuple(text.split(","))
    for place in places:
        if unix_path(place) is None:
            place_to_reach(place)
    return places


def add_place(parser: argparse.ArgumentParser, help: str, default: str | None = None) -> None:
    """Adds the arguments that say where nodes of replicated logs are, and with which keys they are asked.
    The node is a tuple of places, or None."""
    parser.add_argument("--node", type=argument(node_places), default=default, metavar="PLACES", help=help)
    parser.add_argument("--keys", type=Path, metavar="FOLDER", help="keys of a node, where those nodes have some")


def add_listen(parser: argparse.ArgumentParser, what: str, port: int, warning: str) -> None:
    """Adds the arguments that say where a server listens: on loopback, if nothing else is asked for and allowed.
    `what` is there. `warning`: who reads what on another address."""
    help = f"{what} (default 127.0.0.1:{port}); port 0: any that is free"
    default = ("127.0.0.1", port)
    parser.add_argument("--listen", type=argument(place_to_listen), default=default, metavar="ADDRESS:PORT", help=help)
    parser.add_argument("--allow-remote", action="store_true", help=warning)


def add_windows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--window", type=seconds, default=1.0, help="seconds to measure over (default 1)")
    parser.add_argument("--count", type=count, help="windows to show (default: until q or Ctrl-C)")


# ---- settings of a daemon ----

_LINK: Final = re.compile(r"\s*\(\[[^\]]*\]\([^)]*\)\)")


def add_settings(
    parser: argparse.ArgumentParser, declared: Declaration, types: Mapping[str, Callable[[str], Any]],
    without: Collection[str] = (),
) -> None:  # fmt: skip
    """An option for each setting, None where it is not given. `types`: of those that are no text. `without`: settings
    that have an option already."""
    for setting in declared.settings:
        if setting.name in without:
            continue
        option, help = option_of(setting.name), _help(setting)
        if setting.is_flag:
            parser.add_argument(option, action="store_true", default=None, help=help)
        else:
            nargs = "+" if setting.is_list else None
            kind = types.get(setting.name, str)
            parser.add_argument(option, nargs=nargs, metavar=setting.unit, type=kind, help=help)


def _help(setting: Setting) -> str:
    """Returns the help text of a setting, without Markdown."""
    text = f"{_LINK.sub('', setting.meaning)} (default: {setting.default})"
    return text.replace("`", "").replace("%", "%%")


# ---- numbers, sizes and times, each with an error in words ----


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Makes a reader fit for `type=`: argparse shows what a ValueError says only if it is of argparse's own kind."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


size: Final = argument(some_bytes)
"""Bytes, such as `64M`; above 0."""
seconds: Final = argument(some_seconds)
"""Seconds, such as `0.5`, `500ms` or `10min`; above 0."""
_SINCE: Final = values.seconds(0, 1e9)
seconds_or_0: Final = argument(_SINCE)
"""Likewise, from 0 on."""


def moment(text: str) -> float | datetime:
    """A time since a recording began, or a date and time in ISO format."""
    with suppress(ValueError):
        return _SINCE(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no moment: seconds, 10min, or 2026-01-31T12:00:00") from None


def domain_number(text: str) -> int:
    """The number of a domain."""
    if not text.isdecimal() or int(text) > LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{text!r} is not a domain; domains have numbers from 0 to {LARGEST_ID}")
    return int(text)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None


def natural(text: str) -> int:
    """A whole number, 0 or more."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def count(text: str) -> int:
    """A whole number, 1 or more."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


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
