"""`rtmw node keys`: make, request, sign, install, renew and show the keys of nodes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import Commands, runs
from rtmw.cli.terminal import Table, duration, say, show, show_json
from rtmw.clock import CLOCK
from rtmw.errors import needed

if TYPE_CHECKING:
    from rtmw.net.security.certificates import Facts

Run = Callable[[argparse.Namespace], int]


COMMANDS: Final[Commands] = {
    "init": ("node_keys:add_init", "on the first host of a site: make its authority, a key and a certificate"),
    "request": ("node_keys:add_request", "on each other host: make a key, and ask for its certificate"),
    "sign": ("node_keys:add_sign", "on the first host: sign a request"),
    "install": ("node_keys:add_install", "take in what `sign` has written"),
    "renew": ("node_keys:add_renew", "make another key and certificate; the ones before go when these are there"),
    "show": (
        "node_keys:add_show",
        "names, what expires when, serial numbers and fingerprints; status 1 for what is wrong",
    ),
}


def _begin(parser: argparse.ArgumentParser, run: Run) -> None:
    def checked(arguments: argparse.Namespace) -> int:
        needed("cryptography", "cryptography", "link", "`rtmw node keys`")
        return run(arguments)

    runs(parser, checked)
    parser.add_argument("--folder", metavar="FOLDER", type=Path, default=Path("keys"), help="of keys (./keys)")


def add_init(parser: argparse.ArgumentParser) -> None:
    _begin(parser, init)
    parser.add_argument("name", metavar="NAME", help="of this node, such as rtmw://plant/hub")


def add_request(parser: argparse.ArgumentParser) -> None:
    _begin(parser, request)
    parser.add_argument("name", metavar="NAME", help="of this node, such as rtmw://plant/press-7")


def add_sign(parser: argparse.ArgumentParser) -> None:
    _begin(parser, sign)
    parser.add_argument("file", metavar="REQUEST", type=Path, help="what `request` or `renew` has made")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="to write (default: NODE.pem)")


def add_install(parser: argparse.ArgumentParser) -> None:
    _begin(parser, install)
    parser.add_argument("file", metavar="FILE", type=Path, help="what `sign` has written, or the ca.pem of a host")
    parser.add_argument("--trust", action="store_true", help="also authorities that are not trusted yet")


def add_renew(parser: argparse.ArgumentParser) -> None:
    _begin(parser, renew)
    parser.add_argument("--authority", action="store_true", help="another authority; the one before stays trusted")


def add_show(parser: argparse.ArgumentParser) -> None:
    _begin(parser, show_keys)


def init(arguments: argparse.Namespace) -> int:
    """Status 0."""
    from rtmw.net.security import keys

    made = keys.init(arguments.folder, _name(arguments.name), CLOCK.wall())
    todo = f"sign requests of other hosts here: rtmw node keys sign FILE{_in(arguments)}"
    _tell(arguments, [*_lines(made), todo], certificates=[made])
    return 0


def request(arguments: argparse.Namespace) -> int:
    """Status 0."""
    from rtmw.net.security import keys

    path, key = keys.request(arguments.folder, _name(arguments.name))
    _tell(arguments, _asked(path, key), request=str(path), key_fingerprint=key)
    return 0


def sign(arguments: argparse.Namespace) -> int:
    """Status 0."""
    from rtmw.net.security import keys

    done = keys.sign(arguments.folder, arguments.file, arguments.output, CLOCK.wall())
    todo = f"carry {done.path} back, and there: rtmw node keys install {done.path.name}"
    words = [f"signed {done.name}, key {done.key_fingerprint}", todo]
    _tell(arguments, words, name=done.name, key_fingerprint=done.key_fingerprint, file=str(done.path))
    return 0


def install(arguments: argparse.Namespace) -> int:
    """Status 0."""
    from rtmw.net.security import keys

    found = keys.install(arguments.folder, arguments.file, CLOCK.wall(), trust=arguments.trust)
    _tell(arguments, [line for one in found for line in _lines(one)], certificates=found)
    return 0


def renew(arguments: argparse.Namespace) -> int:
    """Status 0."""
    from rtmw.net.security import keys

    now = CLOCK.wall()
    if arguments.authority:
        made = keys.renew_authority(arguments.folder, now)
        todo = "carry ca.pem to each other host, and there: rtmw node keys install ca.pem --trust; then renew each node"
        _tell(arguments, [*_lines(made), todo], certificates=[made])
        return 0
    renewed = keys.renew(arguments.folder, now)
    if renewed:
        _tell(arguments, _lines(renewed), certificates=[renewed])
        return 0
    asked = keys.pending(arguments.folder)
    assert asked is not None
    path = arguments.folder / "request.pem"
    _tell(arguments, _asked(path, asked[1]), request=str(path), key_fingerprint=asked[1])
    return 0


def show_keys(arguments: argparse.Namespace) -> int:
    """Status 1 if something is wrong, or soon will be."""
    from rtmw.net.security import keys

    now = CLOCK.wall()
    found, asked = [*keys.show(arguments.folder, now)], keys.pending(arguments.folder)
    well = not any(one.warning for one in found)
    if arguments.json:
        waiting = {"name": asked[0], "key_fingerprint": asked[1]} if asked else None
        show_json({"folder": str(arguments.folder), "well": well, "certificates": found, "request": waiting})
        return 0 if well else 1
    rows: list[tuple[str | None, ...]] = [
        (one.what, one.facts.name, _expiry(one.facts, now), one.facts.serial, one.facts.fingerprint, one.warning)
        for one in found
    ]
    if asked:
        rows.append(("request, not signed yet", asked[0], None, None, f"key {asked[1]}", None))
    columns = ("what", "name", "expires", "serial", "fingerprint", "advice")
    show(Table(f"Keys in {arguments.folder}", columns, rows))
    return 0 if well else 1


def _name(text: str) -> Any:
    from rtmw.net.security.names import parse_name

    try:
        return parse_name(text)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _expiry(facts: Facts, now: float) -> str:
    left = facts.expires - now
    return f"in {duration(left)}" if left > 0 else f"{duration(-left)} ago"


def _lines(facts: Facts) -> list[str]:
    return [f"{facts.name}: expires {_expiry(facts, CLOCK.wall())}, serial {facts.serial}", f"  {facts.fingerprint}"]


def _asked(path: Path, key: str) -> list[str]:
    return [
        f"key {key}",
        f"carry {path} to the host that signs, and there: rtmw node keys sign {path.name}",
        "then here: rtmw node keys install FILE",
    ]


def _in(arguments: argparse.Namespace) -> str:
    return "" if arguments.folder == Path("keys") else f" --folder {arguments.folder}"


def _tell(arguments: argparse.Namespace, lines: list[str], **facts: Any) -> None:
    """`lines` for people, `facts` for programs."""
    if arguments.json:
        show_json({"folder": str(arguments.folder), **facts})
    else:
        say(*lines)
