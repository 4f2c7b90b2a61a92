"""What nodes say to each other of their logs, and the value of a log in the control store, as bytes and back.

A session of two nodes has two streams each way, of all logs together: messages, and batches, which have a lower
priority so that no heartbeat waits behind them. Each carries frames: a head, and as many bytes as it says.

    | size u32 | kind u8 | zeros 3 | uuid of the log 16 | uuid of the sender's copy 16 | body … |

A member of a log is `NODE.UUID`: the name that its session has shown, and the uuid of its copy, which a disk that was
wiped does not have any more. Bytes of the other side are checked before anything is made of them: what reads raises
ValueError.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, NamedTuple, cast

from rtmw.durable_log.log import LONGEST_S
from rtmw.replica import words as w
from rtmw.replica.requests import LARGEST_RAW, Splitter
from rtmw.settings import values
from rtmw.text.units import duration

VERSION: Final = 1
SPEAKS: Final = "log="
"""Before the version of this protocol, in the hello of a node."""
MESSAGES: Final = "log messages"
BATCHES: Final = "log batches"
"""Purposes of streams."""
COPY: Final = "log copy"
"""The purpose of a stream that copies what a member lacks (copying.py)."""
HEAD: Final = struct.Struct("<IB3x16s16s")
MOST: Final = LARGEST_RAW + (1 << 16)
_ACK: Final = struct.Struct("<7QBB")
_BATCHES: Final = struct.Struct("<QQQ")
_EPOCH: Final = struct.Struct("<Q")
_BEAT, _BATCH, _ACKED, _TAKE_OVER = range(1, 5)
_MOST_MEMBERS: Final = 32
_TOP: Final = 1 << 63


def member_id(node: str, uuid: bytes) -> str:
    return f"{node}.{uuid.hex()}"


def node_of(member: str) -> str:
    """The name of the node of a member; empty of an empty one."""
    return member.rpartition(".")[0]


class Frame(NamedTuple):
    log: bytes
    sender: bytes
    """The uuid of the sender's copy."""
    message: w.Message


def pack(log: bytes, sender: bytes, message: w.Message) -> bytes:
    if isinstance(message, w.Batches):
        body = _BATCHES.pack(message.epoch, message.position, message.commit)
        return b"".join((HEAD.pack(len(body) + len(message.data), _BATCH, log, sender), body, message.data))
    if isinstance(message, w.Ack):
        numbers = (message.epoch, message.durable, message.end, message.incarnation, message.promise, *message.life)
        kind, body = _ACKED, _ACK.pack(*numbers, message.is_full, message.is_beat)
    elif isinstance(message, w.TakeOver):
        kind, body = _TAKE_OVER, _EPOCH.pack(message.epoch)
    else:
        told = message._asdict() | {"control": control_as_json(message.control)}
        kind, body = _BEAT, json.dumps(told).encode()
    return HEAD.pack(len(body), kind, log, sender) + body


def splitter() -> Splitter:
    return Splitter(HEAD, MOST)


def frames_in(split: Splitter, data: bytes) -> list[Frame]:
    """Whole frames; one of a kind that is not known is passed over, as a later version may have it."""
    found = list[Frame]()
    for (_, kind, log, sender), body in cast("list[tuple[Any, bytes]]", split.feed(data)):
        if kind in _READ:
            try:
                message: w.Message = _READ[kind](body)
                found.append(Frame(log, sender, message))
            except (ValueError, TypeError, KeyError, AttributeError, struct.error, RecursionError) as error:
                raise ValueError(f"a message of kind {kind} is not as version {VERSION} has it: {error}") from None
    return found


def _ack(body: bytes) -> w.Ack:
    *numbers, is_full, is_beat = _ACK.unpack(body)
    epoch, durable, end, incarnation, promise, *life = map(_number, numbers)
    return w.Ack(epoch, durable, end, incarnation, promise, (life[0], life[1]), bool(is_full), bool(is_beat))


def _batches(body: bytes) -> w.Batches:
    epoch, position, commit = map(_number, _BATCHES.unpack_from(body))
    return w.Batches(epoch, position, memoryview(body)[_BATCHES.size :], commit)  # without a copy


def _beat(body: bytes) -> w.Beat:
    told = json.loads(body)
    life, turns = map(_number, told["life"])
    table = told["table"]
    return w.Beat(
        _number(told["epoch"]), _number(told["commit"]), _number(told["earliest"]), control_of_json(told["control"]),
        _offsets(told["offsets"]), (life, turns), None if table is None else _table(table), _number(told["end"]),
    )  # fmt: skip


_READ: Final[dict[int, Callable[[bytes], w.Message]]] = {
    _BEAT: _beat,
    _BATCH: _batches,
    _ACKED: _ack,
    _TAKE_OVER: lambda body: w.TakeOver(_number(*_EPOCH.unpack(body))),
}


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _TOP:
        raise ValueError(f"{value!r:.40} is no position, epoch or count")
    return value


def _offsets(told: Any) -> dict[str, int]:
    return {_member(name): _number(value) for name, value in told.items()}


def _table(told: Any) -> w.Table:
    table = tuple((_number(epoch), _number(end)) for epoch, end in told)
    if any(a[0] >= b[0] or a[1] >= b[1] for a, b in itertools.pairwise(table)):
        raise ValueError("epochs of a table, and their ends, rise")
    return table


def _member(told: Any) -> str:
    node, _, uuid = told.rpartition(".")
    values.name(node)
    if len(bytes.fromhex(uuid)) != 16:
        raise ValueError(f"{told!r:.80} is no member")
    return cast("str", told)


# ---- the control value ----


def control_as_json(control: w.Control) -> dict[str, Any]:
    return {
        "epoch": control.epoch, "master": control.master, "members": sorted(control.members),
        "in_sync": control.in_sync, "pending": sorted(control.pending), "checkpoint": control.checkpoint,
        "slices": control.slices, "settings": asdict(control.settings),
    }  # fmt: skip


def control_of_json(told: Any) -> w.Control:
    """Raises ValueError, TypeError, KeyError, AttributeError."""
    members, pending = (frozenset(map(_member, told[key])) for key in ("members", "pending"))
    in_sync = _offsets(told["in_sync"])
    slices = tuple(w.Slice(_number(start), _number(end)) for start, end in told["slices"])
    settings = w.Settings(**{one.name: told["settings"][one.name] for one in fields(w.Settings)})
    check_settings(settings, len(members))
    is_run = all(one.start < one.end for one in slices)
    is_run = is_run and all(a.end == b.start for a, b in itertools.pairwise(slices))
    master = told["master"] and _member(told["master"])
    if not (is_run and in_sync and {*in_sync, *pending} <= members and 1 <= len(members) <= _MOST_MEMBERS):
        raise ValueError("members, the in-sync set and the cache do not fit each other")
    return w.Control(
        _number(told["epoch"]), master, members, in_sync, pending, _number(told["checkpoint"]), slices, settings
    )


def check_settings(settings: w.Settings, members: int) -> None:
    """Raises ValueError, which says what a log of so many members can have."""
    least = _number(settings.min_insync)
    if not 1 <= least <= members:
        what, give = ("1 member", "1") if members == 1 else (f"{members} members", f"1 to {members}")
        raise ValueError(f"min_insync is {least}, and the log has {what}; give {give}, as --min-insync {members}")
    for name in ("sync_timeout", "lag", "suspect"):
        seconds = getattr(settings, name)
        if type(seconds) not in (int, float) or not 0.01 <= seconds <= 3600:
            raise ValueError(f"{name} is {seconds!r:.40}; give {duration(0.01)} to {duration(3600)}")
    if type(settings.age) not in (int, float) or not 0 <= settings.age <= LONGEST_S:
        raise ValueError(f"age is {settings.age!r:.40}; give seconds, or 0 for no limit")
    _number(settings.bytes)
    if not 0 < _number(settings.slice) <= w.MIB or _number(settings.cache) < settings.slice:
        raise ValueError("a slice has at most 1 MiB, and the cache has room for one")


def pack_control(uuid: bytes, control: w.Control) -> bytes:
    """The state of a log in the store. `uuid`: of the log."""
    return json.dumps({"version": VERSION, "uuid": uuid.hex(), **control_as_json(control)}).encode()


def control_in(state: bytes) -> tuple[bytes, w.Control]:
    """The uuid of the log, and the control value. ValueError: these bytes are no state that this version knows."""
    try:
        told: Mapping[str, Any] = json.loads(state)
        if told["version"] != VERSION:
            raise ValueError(f"it is of version {told['version']!r:.20}, and this rtmw knows {VERSION}")
        return bytes.fromhex(told["uuid"]), control_of_json(told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"the control store has a value that is no state of a log: {error}") from None
