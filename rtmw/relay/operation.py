"""Operators of a relay: what they ask and do at a Unix socket in its folder, where the kernel says who they are (R11),
and what the relay says of itself to the domain of its node.

A question is one line of JSON, `{"verb": "hold", "whom": "GATE"}`, and so is its answer. The owner of the folder and
root may ask. An act is answered when its rows are durable.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rtmw
from rtmw.domain import NO_DOMAIN
from rtmw.errors import LogError, RtmwError
from rtmw.net.session.sockets import uid_of
from rtmw.observe.services import RELAY_EVENTS, RELAY_TOPIC, RelayAgent, pack_relay
from rtmw.publisher import OwnPublisher
from rtmw.relay.frame import ALL
from rtmw.relay.machine import ACTS, Act, Machine
from rtmw.relay.rows import Row
from rtmw.relay.state import stream_name
from rtmw.text.strict_json import as_json

if TYPE_CHECKING:
    from rtmw.relay.server import Server

log = logging.getLogger("rtmw.relay")

SOCKET: Final = "operator.sock"
MOST: Final = 1000
"""Orders in one answer."""
LOOKS: Final = frozenset({"agents", "queue"})
LONGEST, CHUNK = 1 << 20, 1 << 16
"""Bytes of a question, and of what is read at once."""
_PATIENCE_S: Final = 10.0
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


class NoAnswer(RtmwError):
    """No relay answers in this folder, or not to this user."""


class Unsure(NoAnswer):
    """The relay was asked to do something, and nobody knows whether it does: it can be asked again without harm."""


def ask(folder: Path, verb: str, whom: str = "") -> dict[str, Any]:
    """The answer of the relay that has its record in this folder. NoAnswer and its kind say what to do."""
    said, is_asked = b"", False
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(2 * _PATIENCE_S)
            sock.connect(str(folder / SOCKET))
            is_asked = True
            sock.sendall(as_json({"verb": verb, "whom": whom}).encode() + b"\n")
            while data := sock.recv(CHUNK):
                said += data
        found: dict[str, Any] = json.loads(said)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NoAnswer(
            f'no relay runs in {folder}: start its node, rtmw node --config FILE with serve = ["relay"]; rtmw relay '
            "show ORDER reads the record without it"
        ) from None
    except PermissionError:
        raise NoAnswer(f"{folder} lets in its owner and root; ask as one of them") from None
    except (OSError, ValueError) as error:
        words = f"the relay in {folder} does not answer ({'it ended' if isinstance(error, ValueError) else error})"
        if is_asked and verb in ACTS:
            again = f"say rtmw relay {verb} {whom} again, which does it once, and tells if it was done"
            raise Unsure(f"{words}: it may have done this, or do it yet; {again}") from None
        raise NoAnswer(f"{words}; ask rtmw node doctor") from None
    if "denied" in found:
        raise NoAnswer(found["denied"])
    return found


class Question:
    """A connection of an operator: one question, and its answer."""

    def __init__(self, operation: Operation, sock: socket.socket, _: str) -> None:
        self._operation, self._socket = operation, sock

    async def greet(self) -> None:
        said, loop = b"", asyncio.get_running_loop()
        self._socket.setblocking(False)
        with suppress(OSError, ValueError, RecursionError, AttributeError):  # who asks so gets no answer
            async with asyncio.timeout(_PATIENCE_S):
                while len(said) < LONGEST and b"\n" not in said and (data := await loop.sock_recv(self._socket, CHUNK)):
                    said += data
                asked = json.loads(said)
                verb, whom = str(asked.get("verb")), str(asked.get("whom"))
                answer = await self._operation.answer(uid_of(self._socket), verb, whom)
                await loop.sock_sendall(self._socket, as_json(answer).encode() + b"\n")

    def over(self) -> None:
        self._socket.close()


class Operation:
    """What operators ask a relay and do to it. Not for several threads."""

    def __init__(self, server: Server, domain: int) -> None:
        self._server = server
        self._board: tuple[OwnPublisher, OwnPublisher] | None = None
        if domain != NO_DOMAIN:
            attached = rtmw.Domain(domain, create=False)  # it is the node's
            self._board = (
                OwnPublisher(RELAY_TOPIC, domain=attached, history=1, depth=1),
                OwnPublisher(RELAY_EVENTS, domain=attached, history=64),
            )
        self._agents = dict[str, RelayAgent]()
        """What the domain was told last of each agent."""

    def say(self) -> None:
        """The relay is at work, and so much waits. Call it once a second: it makes the rows of those agents anew of
        which there may be something else to say."""
        if self._board is None:
            return
        machine = self._server.machine
        changed, machine.changed = machine.changed, set()
        for name in changed:
            if machine.policy.agents.get(name) is None:
                self._agents.pop(name, None)
                continue
            one = _agent(machine, name)
            figures = one["waiting"], one["in_flight"], one["oldest"] or 0, one["skew"]
            self._agents[name] = RelayAgent(name, one["connected"] == "yes", *figures)
        self._board[0].publish(pack_relay(self._agents.values(), machine.rows, machine.full))

    def tell(self, row: Row) -> None:
        """Publishes the alarm of an ALARM row."""
        if self._board is not None:
            self._board[1].publish(as_json({"agent": row.source, "cause": row.cause, "at": row.at}).encode())

    def close(self) -> None:
        for publisher in self._board or ():
            publisher.close()

    async def answer(self, uid: int, verb: str, whom: str) -> dict[str, Any]:
        owner, machine = self._server.store.folder.stat().st_uid, self._server.machine
        if uid not in (owner, 0):
            return {"denied": f"the relay answers uid {owner}, who owns its folder, and root; uid {uid} is neither"}
        if verb == "queue" and whom and machine.policy.agents.get(whom) is None:
            return {"denied": f"the settings have no agent {whom}: rtmw relay agents shows those that there are"}
        if verb in LOOKS:
            names = [whom] if whom else [one.name for one in machine.policy.relay.agents]
            looked = (_queue(machine, name) if verb == "queue" else [_agent(machine, name)] for name in names)
            rows = chain.from_iterable(looked)
            return {"rows": list(islice(rows, MOST)), "more": sum(1 for _ in rows)}
        if verb not in ACTS or (verb not in ("hold", "release") and not _NUMBER.fullmatch(whom)):
            return {"denied": f"the relay knows no {verb} {whom}: it is of another version"}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def reply(words: str, is_done: bool) -> None:
            if not answer.done():  # who has asked waits no more
                answer.set_result({"done": is_done, "words": words})

        body = self._body(whom) if verb == "requeue" else None
        self._server.step(machine.act, Act(uid, verb, whom, body, reply))
        return await answer

    def _body(self, order: str) -> bytes | None:
        known = self._server.store.state.numbers.get(int(order))
        with suppress(LogError):  # the record has it no more
            return self._server.store.body(known) if known is not None else None
        return None


def _agent(machine: Machine, name: str) -> dict[str, Any]:
    """Times in nanoseconds since 1970; None: never, or nobody."""
    line, queue = machine.lines[name], machine.state.queues[name]
    holds = [one for one in machine.state.holds if name in (one, one.rpartition(":")[2])]
    return {
        "agent": name, "connected": "yes" if line.connection else "no", "since": line.since or None,
        "waiting": queue.waiting, "in_flight": len(line.sent),
        "oldest": min((legs[0].order.at for legs in queue.streams.values()), default=None),
        "tries": max((leg.tries for leg in line.sent.values()), default=0),
        "last_sent": line.last_sent or None, "skew": line.skew,
        "held": sorted({*holds, *map(stream_name, queue.held)}), "follows": _followed(machine, name),
    }  # fmt: skip


def _followed(machine: Machine, name: str) -> list[str]:
    """Subjects; with source, command and performative where the subscription is for some orders alone."""
    found = ((subject, one) for subject, names in machine.state.follows.items() for one in names.get(name, ()))
    agent = machine.policy.agents.get(name)
    said = {subject if one == ALL else f"{subject} ({' '.join(one)})" for subject, one in found}
    return sorted(said.union(agent.follows if agent else ()))


def _queue(machine: Machine, recipient: str) -> Iterator[dict[str, Any]]:
    """The orders that wait for a recipient, by priority."""
    queue, line = machine.state.queues[recipient], machine.lines[recipient]
    legs = [leg for stream in queue.streams.values() for leg in stream]
    for leg in sorted(legs, key=lambda one: (-one.order.priority, one.order.number)):
        order, is_sent = leg.order, leg.order.number in line.sent
        yield {
            "order": order.number, "to": recipient, "from": order.source, "destination": order.destination,
            "priority": order.priority, "oldest": order.at, "tries": leg.tries,
            "state": "sent, not confirmed" if is_sent else machine.why_unsent(leg),
        }  # fmt: skip
