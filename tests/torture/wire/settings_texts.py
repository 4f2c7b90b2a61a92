"""Settings files of nodes as people and programs write them: each is read, or refused in words."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from rtmw import settings
from rtmw.errors import RtmwError
from rtmw.net.settings import NODE, Settings, make_settings
from tests.torture.wire.types_bounds import Bounds, Harm, main

TABLES: Final = {
    "": [setting.name for setting in NODE.settings],
    "[link]": ["listen", "connect", "keys", "revoked", "insecure", "lease", "openssl", "priority"],
    "[transfer]": ["listen", "connect", "keys", "insecure"],
    "[[allow]]": ["peer", "publish", "subscribe", "send", "receive", "max_size", "max_priority", "deny", "k" * 3000],
    "[strange]": ["a", '"b c"', "a.b.c", "''"],
}
FITS: Final = {
    **dict.fromkeys(("topics_out", "topics_in", "dds_topics", "publish", "subscribe", "send", "deny"), '["plant/*"]'),
    **dict.fromkeys(("pool", "max_rate", "max_size"), '"10M"'),
    **dict.fromkeys(("domain", "dds_domain", "metrics_port", "max_priority"), "7"),
    **dict.fromkeys(("ros2", "insecure"), "true"),
    **dict.fromkeys(("lease", "handover"), "2.5"),
    **dict.fromkeys(("topic_rates", "peer_rates"), '["a*=2M"]'),
    **{"connect": '"127.0.0.1:7"', "listen": '"127.0.0.1:7"', "peer": '"rtmw://plant/*"', "revoked": '["5f"]'},
    **{"name": '"plant"', "data": '"data"', "serve": '["transfer"]', "keys": '"keys"', "peers": '["10.0.0.7"]'},
}
WHOLE: Final = (
    *('"64M"', "7", "0.5", '"5s"', "true", "false", '"*"', '["*"]', '["camera/*=2M"]', '"127.0.0.1:7400"'),
    *('["[::1]:7"]', '"unix:link.sock"', '["127.0.0.1"]', '"lo"', '"rtmw://plant/hub"', '"keys"', '["transfer"]'),
    *('"plant"', "1979-05-27"),
)
STRANGE: Final = (
    *("-1", "0", "1e400", "nan", "inf", "-0.0", "1" + "0" * 400, "0x" + "f" * 400, '""', "[]", "{}", "{a = 1}"),
    *("[[[[1]]]]", "[" * 3000 + "]" * 3000, '"' + "x" * 5000 + '"', '"\\u0000"', '"\\u202e"', '"\\u001b[2J"'),
    *('"\U0001f4a9"', '["a", 1]', '"[::1"', '"host:"', '"host:99999"', '"unix:"', '":7"', '"1K1"', '"M"', '"5 s"'),
    *('"="', '["=2M"]', '["*=x"]', "07:32:00", '"[[["', '"[!]"', '"rtmw://"', '"uid:x"', '"uid:-1"', "'''\n'''"),
    *('"""a\nb"""', "1979-05-27T07:32:00Z"),
)
BETWEEN: Final = ("", "", "# [link]", "=", "[", "]", "[[allow]", "\0", "\r", "\ufeff", "x", "a = 1 b = 2", "[link]")
WHAT: Final = ("plant/level", "", "[", "\u202e")


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "node.toml")
        while time.process_time() < until:
            data = _text(chance)
            path.write_bytes(data)
            counts["files"] += 1
            settings = bounds.run(lambda path=path: make_settings(path, {}), data)
            if settings is None:
                counts["refused"] += 1
                _is_refused_in_words(path, data)
                continue
            counts["accepted"] += 1
            bounds.run(lambda settings=settings: _use(settings), data)
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _use(settings: Settings) -> None:
    for what in WHAT:
        settings.leaves(what), settings.enters(what), settings.rate_of(what)
        for verb in ("publish", "subscribe", "send"):
            settings.allow.judge("rtmw://plant/hub", verb, what, 3, 10)
    NODE.changes(settings, settings)


def _is_refused_in_words(path: Path, data: bytes) -> None:
    try:
        make_settings(path, {})
    except RtmwError as error:
        words = str(error)
    else:
        raise Harm(f"{data!r} is refused once, and taken the next time")
    if not all(line.isprintable() for line in words.split("\n")):  # several mistakes: a line each
        raise Harm(f"{data!r} is refused in words for no terminal: {words!r}")


def _text(chance: Random) -> bytes:
    lines: list[str] = []
    for table in chance.sample([*TABLES], chance.randrange(1, len(TABLES) + 1)):
        lines.append(table)
        for key in chance.sample(TABLES[table], chance.randrange(4)):
            value = FITS.get(key, "1") if chance.random() < 0.8 else chance.choice(WHOLE + STRANGE)
            lines.append(f"{key} = {value}" if chance.random() < 0.98 else chance.choice(BETWEEN))
    if lines[0] != "" and chance.random() < 0.5:
        lines.insert(0, "")
    data = bytearray("\n".join(lines).encode())
    if data and chance.random() < 0.1:
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _any_depth() -> None:
    """What lies too deep is no error of settings."""
    settings.RecursionError = ZeroDivisionError  # type: ignore[attr-defined]


MUTANTS: Final[dict[str, Callable[[], Any]]] = {"any depth": _any_depth}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
