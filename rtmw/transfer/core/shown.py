"""The view of a core for people and tools: transfers under the paper's names, queues, counters; as JSON in pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rtmw.transfer.core.progress import held_for
from rtmw.transfer.core.watching import counters_of
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.frames import BLOCK
from rtmw.transfer.messages import Shown
from rtmw.transfer.queues import Item, queue_name
from rtmw.transfer.records import Spooled, TransferId, TransferState
from rtmw.transfer.store import queue_rows, transaction_rows

if TYPE_CHECKING:
    from rtmw.transfer.core.service import Service

__all__ = ["answer_to", "queue_items", "transfer_row"]

TIMEOUT_S: Final = 10
"""Seconds: the paper's timeout of an item that is part of no transaction."""
MOST: Final = 10_000
"""Largest number of rows in one answer; `more` says how many there are beside."""


def answer_to(what: str, service: Service) -> Iterator[Shown]:
    """Yield the answer to a Show, in pieces. Raises ValueError, TransferRefused."""
    kind, _, rest = what.partition(" ")
    if kind == "transfers":
        yield from _pieces(_all(service))
    elif kind == "dead":
        yield from _pieces(_dead(service))
    elif kind == "queues":
        items = queue_items(_items(service, MOST), service)
        yield from _pieces({"queues": _queues(service), "items": items, "more": _more(service)})
    elif kind == "members":
        yield from _pieces(_members(service))
    elif kind == "info":
        item = _found(rest, service)
        yield from _pieces({**transfer_row(item, service), **queue_items([item], service)[0]})
    elif kind == "body":
        yield from _pieces(_body(_found(rest, service), service))
    else:
        raise ValueError(f"a core does not show {what!r}; it shows transfers, dead, queues, members, info ID, body ID")


def _found(written: str, service: Service) -> Item:
    item = service.machines.find(TransferId.parse(written))
    if item is None:
        raise TransferRefused(f"there is no transfer {written}; it has ended, or never was{_end_of(written, service)}")
    return item


def _body(item: Item, service: Service) -> dict[str, Any]:
    """Return the body in base64; or the path of the file in which it lies, which goes with the transfer."""
    body, kind = item.record.body, item.record.header.kind.name
    if isinstance(body, Spooled):
        return {"kind": kind, "path": str(service.path(body))}
    return {"kind": kind, "body": base64.b64encode(body).decode()}


def _end_of(written: str, service: Service) -> str:
    move = service.machines.move(TransferId.parse(written))
    if move.state in (None, TransferState.UNKNOWN):
        return ""
    return f": it is {move.state.name}{f', {move.cause}' if move.cause else ''}"


def _all(service: Service) -> dict[str, Any]:
    """Return transfers, what is on its way to the core, open transactions, and the last events."""
    machines = service.machines
    counters = counters_of((machines.logged, machines.volatile), service.redelivered)
    return {
        "node": machines.logged.state.node,
        "counters": asdict(counters),
        "transfers": [transfer_row(item, service) for item in _items(service, MOST)],
        "more": _more(service),
        "arriving": [*service.arriving(), *service.nodes.arriving()],
        "transactions": _transactions(service),
        "events": [one.row() for one in service.events.last],
        "events_before": service.events.count - len(service.events.last),
    }


def _dead(service: Service) -> list[dict[str, Any]]:
    """Return the dead letters as rows, at most MOST."""
    machines = service.machines.logged, service.machines.volatile
    items = (item for machine in machines for item in machine.state.items.made.values())
    dead = (item for item in items if item.state is TransferState.DEAD)
    return [transfer_row(item, service) for item in islice(dead, MOST)]


def _transactions(service: Service) -> list[dict[str, Any]]:
    """Return the open transactions under the paper's names, with who has begun them."""
    rows: list[dict[str, Any]] = []
    for row in transaction_rows(service.machines.logged, service.machines.now().monotonic_ns):
        member = service.owner(row.txn_id)
        owner = {"from": member.name if member else None, "pid": member.life.pid if member else None}
        named = {"TxnID": row.txn_id, "State": row.state, "LastLSN": row.last_lsn, "UndoNxtLSN": row.undo_nxt_lsn}
        size = {"records": row.records, "bytes": row.bytes, "age": row.age}
        rows.append({**named, "SaveList": row.save_list, **owner, **size})
    return rows


def _members(service: Service) -> list[dict[str, Any]]:
    return [
        {
            "pid": member.life.pid,
            "role": ("sender", "inbox")[member.role],
            "name": member.name,
            "to": service.sends_to(member),
        }
        for member in service.members.values()
    ]


def _items(service: Service, most: int) -> list[Item]:
    found: list[Item] = []
    for machine in (service.machines.logged, service.machines.volatile):
        for item in machine.state.items.values():
            if len(found) == most:
                return found
            found.append(item)
    return found


def _more(service: Service) -> int:
    """Return the number of transfers beyond those in one answer."""
    machines = service.machines.logged, service.machines.volatile
    return max(0, sum(len(machine.state.items) for machine in machines) - MOST)


def transfer_row(item: Item, service: Service) -> dict[str, Any]:
    """Return the row of a transfer. `deliveries` and `retries`: None, if another node hands it over, which counts them.
    `bytes`: those of all its parts, with those of files; `sent`: how many of these have left for another node;
    `received`: how many of these that node has, as it has said; `limit`: how many may leave before it says more;
    `rate`: bytes a second. None: it is not on its way."""
    record, header = item.record, item.record.header
    progress = service.nodes.progress(item)
    waits = _why_waits(item, service) if item.state is TransferState.ACCEPTED else ""
    return {
        "id": str(record.id),
        "to": str(header.to),
        "from": record.sender,
        "state": item.state.name,
        "delivery": header.delivery.name,
        "kind": header.kind.name,
        "bytes": progress.size,
        "priority": header.priority,
        "deliveries": None if header.to.node else item.deliveries,
        "retries": None if header.to.node else max(0, item.deliveries - 1),
        "taker": item.taker.pid if item.taker else None,
        "transaction": item.txn or None,
        "expires_ns": record.deadline_ns or None,
        "sent": progress.sent,
        "received": progress.got if progress.limit else None,
        "limit": progress.limit,
        "rate": progress.rate,
        "cause": item.cause or waits,
    }


def _why_waits(item: Item, service: Service) -> str:
    if item.record.header.to.node:
        return service.nodes.why_waits(item)
    before = service.machines.of(item.lsn).state.held_for(item)
    return held_for(before.record.id) if before is not None else ""


def _queues(service: Service) -> list[dict[str, Any]]:
    """Return the queues of both machines, by name."""
    found: dict[str, dict[str, Any]] = {}
    for machine in (service.machines.logged, service.machines.volatile):
        for row in queue_rows(machine):
            known = found.setdefault(row.queue, {"queue": row.queue, "transfers": 0, "bytes": 0, "states": {}})
            known["receivers"] = row.receivers
            known["transfers"] += sum(row.states.values())
            known["bytes"] += row.bytes
            for state, number in row.states.items():
                known["states"][state.name] = known["states"].get(state.name, 0) + number
    return [found[name] for name in sorted(found)]


def queue_items(items: Iterable[Item], service: Service) -> list[dict[str, Any]]:
    """Return the paper's eleven fields of each item. Items of a queue are linked in the order in which they are read,
    and in that in which they were written; blocks are numbered within a body."""
    queues: dict[str, list[Item]] = {}
    for item in items:
        queues.setdefault(queue_name(item.record.header.to), []).append(item)
    rows: list[dict[str, Any]] = []
    for queue in queues.values():
        read, written = sorted(queue, key=lambda item: item.place), sorted(queue, key=lambda item: item.lsn)
        next_read, next_written = _links(read), _links(written)
        rows += [_queue_item(item, next_read[item.lsn], next_written[item.lsn], service) for item in read]
    return rows


def _links(items: list[Item]) -> dict[int, int]:
    after = [item.lsn for item in items[1:]] + [0]
    return dict(zip((item.lsn for item in items), after, strict=True))


def _queue_item(item: Item, next_read: int, next_write: int, service: Service) -> dict[str, Any]:
    life, blocks = item.taker or item.record.life, -(-item.record.header.length // BLOCK)
    age = service.machines.logged.limits.transaction_age
    return {
        "index": item.lsn,
        "udtype": item.record.header.kind.name,
        "flag": item.state.name,
        "pid": life.pid if life else 0,
        "txId": item.txn,
        "nNextRead": next_read,
        "nNextWrite": next_write,
        "timeout": age if item.txn else TIMEOUT_S,
        "bufHead": 0,
        "bufTail": blocks - 1,
        "bufNum": blocks,
    }


def _pieces(document: object) -> Iterator[Shown]:
    data = json.dumps(document).encode()
    for at in range(0, len(data), BLOCK):
        yield Shown(int(at + BLOCK >= len(data)), data[at : at + BLOCK])
