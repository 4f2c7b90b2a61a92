"""What it costs to turn a message into bytes and back: `python bench/codec.py`.

The codec of rtmw beside cyclonedds' own encoder, which writes the same bytes, and beside msgspec's MessagePack of a
plain dataclass with the same fields, a C encoder of another format. All are measured in turns, so that a busy machine
slows all alike; the best round counts. Times in microseconds; ratios are to msgspec, encode and decode together.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from timeit import Timer
from typing import Any

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlStruct
from rich.console import Console
from rich.table import Table

from rtmw.types import resolve


@dataclass
class Fixed(IdlStruct, typename="bench.Fixed"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64


@dataclass
class Mixed(IdlStruct, typename="bench.Mixed"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64
    station: str
    values: t.array[t.float64, 16]


@dataclass
class Sequenced(IdlStruct, typename="bench.Sequenced"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    c: t.float64
    d: t.float64
    station: str
    values: t.sequence[t.float64]


@dataclass
class Texts(IdlStruct, typename="bench.Texts"):
    stamp: t.int64
    sequence: t.int32
    a: t.float64
    b: t.float64
    carrier: str
    flight: str
    origin: str
    destination: str


@dataclass
class Point(IdlStruct, typename="bench.Point"):
    x: t.float64
    y: t.float64
    label: t.int32


@dataclass
class Nested(IdlStruct, typename="bench.Nested"):
    stamp: t.int64
    frame: str
    points: t.sequence[Point]


_HEAD = (1_700_000_000_123_456_789, 4711, 1.5, -2.25, 3.125, 4.0625)
_ROW = [value * 0.1 for value in range(16)]

MESSAGES: dict[str, Any] = {
    "6 numbers": Fixed(*_HEAD),
    "6 numbers, str, array of 16 doubles": Mixed(*_HEAD, "station-7", _ROW),
    "6 numbers, str, sequence of 16 doubles": Sequenced(*_HEAD, "station-7", _ROW),
    "4 numbers, 4 str": Texts(*_HEAD[:4], "UA", "UA1545", "EWR", "IAH"),
    "number, str, 16 nested structs": Nested(_HEAD[0], "map", [Point(v, -v, i) for i, v in enumerate(_ROW)]),
}

Pair = tuple[Callable[[], Any], Callable[[], Any]]


def codecs(message: Any) -> dict[str, Pair]:
    """Encode and decode of a message, ready to call, by contestant."""
    kind = resolve(type(message))
    assert kind.encode is not None
    assert kind.decode is not None
    encode, decode, payload = kind.encode, kind.decode, memoryview(kind.encode(message))
    assert payload == message.serialize()
    assert decode(payload) == message
    pairs: dict[str, Pair] = {
        "rtmw": (lambda: encode(message), lambda: decode(payload)),
        "cyclonedds": (message.serialize, lambda: type(message).deserialize(payload)),
    }
    return pairs | msgspec_codec(message)


def msgspec_codec(message: Any) -> dict[str, Pair]:
    """msgspec with a plain dataclass of the same fields; nothing when it is not installed."""
    try:
        import msgspec
    except ImportError:
        return {}
    value = plain_copy(message)
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(type(value)).decode
    packed = encode(value)
    return {"msgspec": (lambda: encode(value), lambda: decode(packed))}


def plain_copy(value: Any) -> Any:
    """The same value as an instance of a plain dataclass, annotated as a program without IDL would."""
    from dataclasses import make_dataclass

    parts = {member.name: getattr(value, member.name) for member in fields(value)}
    hints: dict[str, Any] = {name: type(part) for name, part in parts.items()}
    for name, part in parts.items():
        if isinstance(part, list):
            parts[name] = row = [plain_copy(item) if isinstance(item, IdlStruct) else item for item in part]
            if isinstance(part[0], IdlStruct):
                element = type(row[0])
                parts[name] = row = [element(*vars(item).values()) for item in row]
            hints[name] = list[type(row[0])]  # type: ignore[misc] (made at run time)
    return make_dataclass(type(value).__name__, list(hints.items()))(**parts)


def measure(contestants: dict[str, Pair], rounds: int) -> dict[str, tuple[float, float]]:
    """Microseconds of one encode and one decode, best of all rounds, in turns."""
    timers = {name: (Timer(pair[0]), Timer(pair[1])) for name, pair in contestants.items()}
    loops = {name: (200 if name == "cyclonedds" else 5000) for name in timers}
    best = dict.fromkeys(timers, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, pair in timers.items():
            now = [timer.timeit(loops[name]) / loops[name] * 1e6 for timer in pair]
            best[name] = (min(best[name][0], now[0]), min(best[name][1], now[1]))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of a few thousand calls (default 30)")
    arguments = parser.parse_args()
    table = Table("message", "codec", title="One message to bytes and back, µs")
    for heading in ("encode", "decode", "both", "ratio"):
        table.add_column(heading, justify="right")
    for title, message in MESSAGES.items():
        times = measure(codecs(message), arguments.rounds)
        base = sum(times.get("msgspec", times["rtmw"]))
        for name, (encode, decode) in times.items():
            both = encode + decode
            table.add_row(title, name, f"{encode:.2f}", f"{decode:.2f}", f"{both:.2f}", f"{both / base:.2f}")
            title = ""
        table.add_section()
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
