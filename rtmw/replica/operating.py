"""What operators do with logs, `rtmw log create|status`: a question and an answer, as JSON, on a stream of their own.

Operators have a session with one node. A node asks others in the same way, in its sessions with them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from rtmw.clock import CLOCK
from rtmw.errors import LogError, NotPermitted, RtmwError, SessionError
from rtmw.net.session import Carrier, Hello, Session, Stream
from rtmw.observe.services import MOST_LOGS
from rtmw.replica import words as w
from rtmw.replica.control.store import Outcome
from rtmw.replica.member import Identity, Member
from rtmw.replica.protocol import BEATS
from rtmw.replica.requests import CAPABILITY
from rtmw.replica.wire import check_settings, control_in, member_id, node_of, pack_control
from rtmw.replica.words import Reply, Role
from rtmw.settings import values
from rtmw.text.units import duration, size

if TYPE_CHECKING:
    from rtmw.replica.server import Server

__all__ = ["OPERATOR", "QUESTION", "Operating", "answer", "ask", "ask_node"]

log = logging.getLogger("rtmw.replica")

OPERATOR: Final = "operator"
"""The capability that an operator's hello has, beside that of a program."""
QUESTION: Final = "log question"
"""The purpose of such a stream."""
_MOST: Final = 1 << 20
_ANSWER_S: Final = 20.0
_STATUS_S: Final = 1.0
"""Seconds that a node waits for what others say of a log."""
_AGAIN_S: Final = 0.1
_NOT_THERE: Final = (ConnectionRefusedError, FileNotFoundError)
_LEAST_SUSPECT_S: Final = 0.1
_LEAST_LAG: Final = 0.3  # of `suspect`: a heartbeat and a half
_SWITCH_S: Final = 10.0
_OLD_S: Final = 10.0
"""A checkpoint rises once a second, while records come; one that is so old is told."""
_LONGEST_DESCRIPTION: Final = 1 << 16


async def ask(session: Session, seconds: float = _ANSWER_S, /, **question: Any) -> dict[str, Any]:
    """Asks the node of a session. LogError: it says why not; SessionError: it does not answer."""
    stream = session.open(QUESTION, priority=5)
    try:
        async with asyncio.timeout(seconds):
            await stream.write(json.dumps(question).encode())
            stream.end()
            told: dict[str, Any] = json.loads(await _whole(stream))
    except TimeoutError:
        raise SessionError(f"no answer within {duration(seconds)}") from None
    finally:  # a session has room for a few hundred open streams, and lives for months
        stream.reset("the answer is here, or comes too late")
    if "error" in told:
        raise LogError(told["error"])
    return told


async def answer(stream: Stream, node: Operating, *, is_node: bool, refusal: str | None = None) -> None:
    """One question. What is wrong with it, or `refusal`, is the answer. SessionError: who has asked is gone."""
    try:
        question = json.loads(await _whole(stream))
        if refusal is not None:
            raise NotPermitted(refusal)
        told = await node.obey(question, is_node=is_node)
    except SessionError:
        raise
    except (RtmwError, ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        known = isinstance(error, RtmwError | OSError) or type(error) is ValueError
        told = {"error": str(error) if known else f"this is no question that node {node.node} knows: {error!r:.200}"}
    await stream.write(json.dumps(told).encode())
    stream.end()


async def _whole(stream: Stream) -> bytes:
    data = b""
    while part := await stream.read():
        data += part
        if len(data) > _MOST:
            raise ValueError(f"more than {size(_MOST)} is no question, and no answer")
    return data


async def _first_reached(carrier: Carrier, places: Sequence[str], until: float) -> Session:
    """A session with the first node that is reached. SessionError: none is, and there is no use in waiting, or it is
    past `until` (CLOCK.monotonic)."""
    while True:
        missed = list[SessionError]()
        for place in places:
            try:
                return await carrier.connect_to(place)
            except SessionError as error:
                missed.append(error)
        may_come = any(isinstance(error.__cause__, _NOT_THERE) for error in missed)
        if not may_come or CLOCK.monotonic() >= until:
            raise missed[0] if len(missed) == 1 else SessionError("; ".join(map(str, missed)))  # each names its place
        await asyncio.sleep(_AGAIN_S)


def ask_node(
    place: str | Sequence[str], keys: Path | None = None, *, wait: float = 0.0, **question: Any
) -> dict[str, Any]:
    """Asks the node at `HOST:PORT`, or `unix:PATH`, from a program without a loop; of several places, the first one
    that is reached, and no other, for what was asked may be done already. `keys`: a folder. `wait`: seconds for which
    no node may be there yet. KeysError, LogError, SessionError."""
    places = (place,) if isinstance(place, str) else place
    identity = None
    if keys is not None:
        from rtmw.net.security.identity import Identity  # a program without TLS needs no package for it

        identity = Identity.load(keys)

    async def asked() -> dict[str, Any]:
        until = CLOCK.monotonic() + wait
        hello = Hello(uuid4(), CLOCK.wall_ns(), capabilities=frozenset({CAPABILITY, OPERATOR}))
        async with Carrier(hello.node, identity=identity, insecure=keys is None, hello=hello) as carrier:
            session = await _first_reached(carrier, places, until)
            more = {"wait": wait} if wait else {}
            return await ask(session, _ANSWER_S + 2 * wait, **question, **more)

    return asyncio.run(asked())


class Risk(NamedTuple):
    """What could be lost next, or stands in the way."""

    words: str
    advice: str
    is_remark: bool = False
    """It works as it is."""


class Operating:
    """Answers the questions of operators and of other nodes."""

    def __init__(self, server: Server) -> None:
        self._server, self.node = server, server.node
        self._preparing, self._changing = asyncio.Lock(), asyncio.Lock()

    async def obey(self, question: Mapping[str, Any], *, is_node: bool) -> dict[str, Any]:
        """Raises LogError, ValueError and other errors: it cannot be done."""
        match question["ask"]:
            case "create":
                return await self._create(**{key: value for key, value in question.items() if key != "ask"})
            case "status":
                return await self._status(question["name"], is_here=is_node or bool(question.get("here")))
            case "logs":
                return self.told()
            case "prepare" if is_node:
                return await asyncio.shield(self._prepare(question))  # nothing is left half made without the asker
            case "leave" if is_node:
                return await self._leave(question["name"])
            case "move" | "members" | "drop":
                return await self._at_master(question)
            case "rescue":
                return await self._rescue(question, is_node=is_node)
            case other:
                raise ValueError(f"node {self.node} does not know how to {other!r:.40}; use the same rtmw on both")

    # ---- create ----

    async def _create(
        self, name: str, members: list[str], description: str, settings: dict[str, Any], wait: float = 0.0
    ) -> dict[str, Any]:
        """`wait`: seconds for all members to be there, and then for a first master."""
        _name("the name of the log", name)
        nodes = [_name("a member", node) for node in members]
        given = replace(self._server.settings, **settings)
        if len({*nodes}) != len(nodes) or not nodes:
            raise ValueError(f"members are {', '.join(nodes)}; name each node once")
        check_settings(given, len(nodes))
        _check_times(given)
        held = await self._held(name)
        if held.state and await self._is_made(name, control_in(held.state)[1]):
            raise LogError(f"there is a log {name} already; `rtmw log status {name}` shows it, or give another name")
        await _until(lambda: not self._away(nodes), wait)
        for node in nodes:
            self._session(node)
        uuid = os.urandom(16)
        ids = {node: member_id(node, os.urandom(16)) for node in nodes}
        control = w.Control(0, "", frozenset(ids.values()), dict.fromkeys(ids.values(), 1), settings=given)
        state = pack_control(uuid, control)
        version = await self._put(name, held.version, uuid, state)
        identity = {"name": name, "uuid": uuid.hex(), "description": description}
        asked = [self._ask(node, ask="prepare", **identity, copy=ids[node].rpartition(".")[2]) for node in nodes]
        for told in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(told, BaseException):
                await self._server.store.change(name, version, b"", {})  # refused if it has a master by now
                raise told
        await self._put(name, version, uuid, state)  # whoever took this creation for one that was broken off is late
        log.info("log %s is made, with members %s", name, ", ".join(nodes))
        return {"name": name, "uuid": uuid.hex(), "members": nodes, "master": await self._first(name, nodes[0], wait)}

    async def _first(self, name: str, node: str, wait: float) -> str:
        """The master, as that member knows it; empty: there is none yet."""
        until = CLOCK.monotonic() + min(wait, _ANSWER_S)
        while not (told := await self._status_at(node, name)).get("master") and CLOCK.monotonic() < until:
            await asyncio.sleep(_AGAIN_S)
        return str(told.get("master", ""))

    async def _put(self, name: str, version: int, uuid: bytes, state: bytes) -> int:
        """The version in the store. LogError: the store has another log of this name."""
        done = await self._server.store.change(name, version, state, {})
        if done.outcome is Outcome.APPLIED:
            return done.version
        fault, held = self._server.store.fault, await self._held(name)
        if not held.state or control_in(held.state)[0] != uuid:
            raise LogError(f"log {name} is not made: {fault or 'another creation has come before it'}")
        return int(held.version)

    async def _is_made(self, name: str, control: w.Control) -> bool:
        """The store names the copies before they are made, so that of two creations at once one is refused by it. One
        that was broken off had no master, and its copies are not all there: another one may take its place."""
        if control.epoch:
            return True
        found = await asyncio.gather(*(self._status_at(node_of(one), name) for one in control.members))
        return control.members == frozenset(told["copy"][0] for told in found if told)

    async def _status_at(self, node: str, name: str, *, waits: bool = False) -> dict[str, Any]:
        """How another node, or this one, sees its copy of a log; empty: it has none, or does not say. `waits`: also for
        a connection that is cut at the moment."""
        with suppress(LogError, SessionError):
            if waits or not self._away([node]):
                return await self._ask(node, _ANSWER_S if waits else _STATUS_S, ask="status", name=name)
        return {}

    async def _held(self, name: str) -> Any:
        held = await self._server.store.read(name)
        if held is None:
            raise LogError(self._server.store.fault)
        return held

    async def _control(self, member: Member) -> w.Control | None:
        """What the store says of this log; None: it has none, or another one. Raises LogError, ValueError."""
        held = await self._held(member.name)
        uuid, control = control_in(held.state) if held.state else (b"", None)
        return control if uuid == member.uuid else None

    async def _ask(self, node: str, seconds: float = _ANSWER_S, /, **question: Any) -> dict[str, Any]:
        """Asks another node, or this one. LogError: it says why not, or there is no session with it; SessionError."""
        session = self._session(node)
        return await (self.obey(question, is_node=True) if session is None else ask(session, seconds, **question))

    def _session(self, node: str) -> Session | None:
        """With this node; None: it is this one. LogError: there is none."""
        session = self._server.session(node)
        if session is None and node != self.node:
            raise LogError(
                f"node {self.node} has no session with node {node}: start that one, and see that [log] connect of one "
                "of both has the place of the other"
            )
        return session

    def _away(self, nodes: Iterable[str]) -> list[str]:
        """Those of them that this node does not reach."""
        sessions = {node: self._server.session(node) for node in sorted({*nodes} - {self.node})}
        return [node for node, session in sessions.items() if session is None or not session.is_connected]

    async def _prepare(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """An empty copy on this node, which is a member once the store says so. One at a time."""
        async with self._preparing:
            return await self._prepare_alone(told)

    async def _prepare_alone(self, told: Mapping[str, Any]) -> dict[str, Any]:
        name, uuid, description = values.name(told["name"]), *map(bytes.fromhex, (told["uuid"], told["description"]))
        if len(uuid) != 16 or len(description) > _LONGEST_DESCRIPTION:
            raise ValueError(f"the uuid has {len(uuid)} bytes, the description of the type {len(description)}")
        member, copy = self._server.members.get(name), bytes.fromhex(told.get("copy", "")) or os.urandom(16)
        if member is not None and await self._may_go(member, told):
            await self._server.discard(name)
        elif member is not None or name in self._server.troubles or (self._server.data / "logs" / name).exists():
            raise LogError(f"node {self.node} has a log {name} already, in {self._server.data / 'logs' / name}")
        member = await self._server.open(Identity(name, uuid, copy, description))
        return {"copy": member.identity.copy.hex()}

    async def _may_go(self, member: Member, told: Mapping[str, Any]) -> bool:
        """A copy of a creation that was not finished, or of a member that was removed; one that is replaced by another
        copy on this node, and has nothing that others lack."""
        control = await self._control(member)
        if control is None or member.me not in control.members:
            return bool(told.get("joins")) or member.wal.end == member.wal.earliest
        if told.get("replaces") and member.me in {*control.in_sync, *control.pending}:
            raise LogError(f"the copy of node {self.node} is in sync: to make it anew, remove the node and add it")
        return bool(told.get("replaces"))

    # ---- members, master and end of a log: its master does it ----

    async def _at_master(self, question: Mapping[str, Any]) -> dict[str, Any]:
        name = question["name"]
        member = self._member(name)
        if member.replica.role is Role.MASTER:
            kind = question["ask"]
            if kind == "drop":
                return await self._drop(member)
            told = {key: values.name(question[key]) for key in ("to", "off", "add", "remove") if question.get(key)}
            if kind == "move":
                return await self._move(member, **told)
            async with self._changing:  # the second of two finds what the first has made
                return await self._change_members(member, **told)
        session = self._server.session(node_of(member.replica.master))
        if session is None or question.get("is_sent"):
            raise LogError(
                f"node {self.node} knows no master of log {name} at the moment: try again, or at another node"
            )
        return await ask(session, **{**question, "is_sent": True})

    def _member(self, name: str) -> Member:
        member = self._server.members.get(name)
        if member is None:
            why = self._server.troubles.get(name) or f"it has {', '.join(self._server.members) or 'none'}"
            raise LogError(f"node {self.node} has no log {name!r}: {why}")
        return member

    async def _move(self, member: Member, to: str = "", off: str = "") -> dict[str, Any]:
        """To a member, or to whichever is best; `off`: if that one is the master."""
        for node in filter(None, (to, off)):
            _check_member(member, node)
        if to == self.node or (off and off != self.node):
            return {"name": member.name, "from": self.node, "to": self.node}
        epoch = member.status().epoch
        answer = await member.ask(lambda ticket: w.Move(ticket, _ids(member).get(to, to)))
        if answer.reply not in (Reply.DONE, Reply.MOVED):
            raise LogError(f"log {member.name} is not moved: {answer.words or answer.reply.value}")
        await _until(lambda: bool(member.status().master and member.status().epoch > epoch), _SWITCH_S)
        master = member.status().master  # MOVED: the promise of the next one came before its word
        if master in (self.node, "") or to not in ("", master):
            raise LogError(f"log {member.name} is not moved as asked: its master is {master or 'not known yet'}")
        return {"name": member.name, "from": self.node, "to": master}

    async def _change_members(self, member: Member, add: str = "", remove: str = "") -> dict[str, Any]:
        """Both: one takes the place of the other, or of itself, if its disk was wiped."""
        name, ids, new = member.name, _ids(member), ""
        if remove:
            _check_member(member, remove)
        if add in ids and add != remove:
            raise LogError(f"node {add} is a member of log {name} already")
        if add:
            identity = {"name": name, "uuid": member.uuid.hex(), "description": member.description.hex()}
            told = await self._ask(add, ask="prepare", **identity, joins=True, replaces=add == remove)
            new = member_id(add, bytes.fromhex(told["copy"]))
        answer = await member.ask(lambda ticket: w.Members(ticket, new, ids.get(remove, "")))
        if answer.reply is not Reply.DONE:
            raise LogError(
                f"the members of log {name} are not changed: {answer.words or answer.reply.value}; "
                f"`rtmw log status {name}` shows them"
            )
        stays = await self._leave_at(name, {remove} - {add, ""})
        log.info("log %s: members change: %s comes, %s goes", name, add or "nobody", remove or "nobody")
        return {"name": name, "members": sorted({*ids, add} - ({remove} - {add}) - {""}), "stays": stays}

    async def _drop(self, member: Member) -> dict[str, Any]:
        """The store forgets it first: from then on nobody becomes master, and copies are nothing but files."""
        name, nodes = member.name, {*_ids(member)} - {self.node}
        done = Outcome.REFUSED
        while done is Outcome.REFUSED:  # its master changes the value now and then
            held = await self._held(name)
            done = (await self._server.store.change(name, held.version, b"", {})).outcome
        if done is not Outcome.APPLIED and (await self._held(name)).state:
            raise LogError(
                f"log {name} is not dropped: {self._server.store.fault or 'the outcome is not known'}; try again"
            )
        stays = await self._leave_at(name, nodes)
        await self._server.discard(name)
        log.warning("log %s is dropped", name)
        return {"name": name, "stays": stays}

    async def _leave_at(self, name: str, nodes: set[str]) -> list[str]:
        """Nodes on which a copy stays, since they are not reached."""
        stays = list[str]()
        for node in sorted(nodes):
            try:
                await self._ask(node, ask="leave", name=name)
            except (LogError, SessionError):
                stays.append(node)
        return stays

    async def _leave(self, name: str) -> dict[str, Any]:
        """The copy of a node that is no member any more goes."""
        member = self._member(name)
        control = await self._control(member)
        if control is not None and member.me in control.members:
            raise LogError(f"node {self.node} is a member of log {name}: remove it first")
        await self._server.discard(name)
        log.warning("log %s: this node is no member any more, and its copy is gone", name)
        return {}

    async def _rescue(self, question: Mapping[str, Any], *, is_node: bool) -> dict[str, Any]:
        """The copy of a node that is not in sync becomes the log, because all that are in sync are gone for ever."""
        name, node = question["name"], values.name(question["node"])
        if node != self.node:
            session = None if is_node else self._server.session(node)
            if session is None:
                raise LogError(f"node {self.node} has no session with node {node}; ask that one: --node")
            return await ask(session, **question)
        member, held = self._member(name), await self._held(name)
        uuid, control = control_in(held.state)
        if uuid != member.uuid or member.me not in control.members:
            raise LogError(f"node {node} has a copy of log {name} that is no member of it")
        await self._check_all_gone(member, control)
        end = member.wal.end
        slices = control.slices if control.slices and control.slices[0].start <= end else ()
        kept = max(end, slices[-1].end) if slices else end
        words = _missing(member, control, kept)
        if not question.get("yes"):
            return {"name": name, "words": words, "is_done": False}
        saved = replace(
            control, epoch=control.epoch + 1, master="", in_sync={member.me: member.replica.marks.incarnation},
            pending=frozenset(), checkpoint=min(control.checkpoint, end), slices=slices,
        )  # fmt: skip
        state = pack_control(uuid, saved)
        done = await self._server.store.change(name, held.version, state, {one.start: None for one in slices})
        if done.outcome is not Outcome.APPLIED and (await self._held(name)).state != state:
            raise LogError(
                f"log {name} is not rescued: {self._server.store.fault or 'somebody else changed it'}; try again"
            )
        log.error("log %s is rescued from the copy of node %s, by hand: %s", name, node, "; ".join(words))
        return {"name": name, "words": words, "is_done": True}

    async def _check_all_gone(self, member: Member, control: w.Control) -> None:
        """LogError: somebody is in sync, and can be master."""
        for one, incarnation in control.in_sync.items():
            node = node_of(one)
            if (await self._status_at(node, member.name, waits=True)).get("copy") == [one, incarnation]:
                raise LogError(
                    f"node {node} is in sync and there, so nothing has to be rescued: it can be master by itself"
                )

    # ---- status ----

    async def _status(self, name: str, *, is_here: bool) -> dict[str, Any]:
        """Returns the state of a log as its master sees it, if the master can be asked, with what members that are
        not in sync say of themselves. `is_here`: as this node sees it."""
        member = self._member(name)
        if is_here:
            return self.status_of(member)
        told = await self._status_at(node_of(member.replica.master), name)
        if not told:  # who is master, or could be, stands in the store
            control = None
            with suppress(LogError, ValueError):
                control = await self._control(member)
            master = node_of(control.master) if control else ""
            told = await self._status_at(master, name) if master != self.node else {}
            told = told or self.status_of(member, control)
        if told["node"] == self.node and told["master"] not in ("", self.node):
            words = f"node {self.node} does not reach {told['master']}, which it takes for the master"
            told["own"].append(
                Risk(words, "see that it runs; without it another one is made, if the control store answers")
            )
        behind = sorted({*told["members"], self.node} - {*told["in_sync"], told["node"]})
        for own in await asyncio.gather(*(self._own_at(node, name) for node in behind)):
            told["own"] += own
        return {**told, "words": [words for words, *_ in told["own"] + told["risks"]]}

    async def _own_at(self, node: str, name: str) -> list[Any]:
        """What a node that is not in sync says of its copy, or that it has none."""
        try:
            return [] if self._away([node]) else [*(await self._ask(node, _STATUS_S, ask="status", name=name))["own"]]
        except LogError as error:
            advice = f"if its disk was wiped, or its copy is lost: rtmw log members {name} replace {node}"
            return [Risk(f"{node} cannot follow: {error}", advice)]
        except SessionError:
            return []

    def told(self) -> dict[str, Any]:
        """How all logs of this node are, as it sees them: for metrics and doctors."""
        members = sorted(self._server.members.items())[:MOST_LOGS]
        full = [name for name, member in members if member.replica.is_full]
        room = f"log {', '.join(full)}: make room in {self._server.data / 'logs'}; then it goes on by itself"
        return {
            "node": self.node, "logs": [self.status_of(member) for _, member in members],
            "troubles": self._server.troubles, "full": room if full else "",
        }  # fmt: skip

    def status_of(self, member: Member, stored: w.Control | None = None) -> dict[str, Any]:
        """For people and programs: `words` says what is at risk, of this copy (`own`) and of the log (`risks`).
        `stored`: what the store says, if that was asked."""
        status, control = member.status(stored), stored or member.replica.control
        settings = control.settings
        lag = {name: {"bytes": missing, "seconds": round(age, 3)} for name, (missing, age) in member.lags().items()}
        own, risks = [*self._own_risks(member)], [*self._risks(member, status, settings)]
        return {
            "name": member.name, "uuid": member.uuid.hex(), "node": self.node,
            "copy": [member.me, member.replica.marks.incarnation], "role": status.role.value,
            "master": status.master, "epoch": status.epoch, "in_sync": sorted(status.in_sync),
            "members": sorted(status.members), "checkpoint": status.checkpoint,
            "checkpoint_age": round(member.checkpoint_age(), 3), "committed": status.committed,
            "earliest": member.earliest, "end": member.wal.end, "min_insync": settings.min_insync,
            "queue": status.queue, "oldest": round(status.oldest, 3), "cached": status.cached,
            "pending": status.pending, "switches": status.switches, "lag": lag,
            "is_full": member.replica.is_full, "store": self._server.store.where,
            "own": own, "risks": risks, "words": [one.words for one in own + risks],
        }  # fmt: skip

    def _own_risks(self, member: Member) -> Iterator[Risk]:
        node, name = self.node, member.name
        if member.replica.role is Role.BEHIND:
            how = member.copying or "it waits for a node that has one"
            yield Risk(f"the copy of {node} was set aside, and is made anew: {how}", "it goes on by itself", True)
        if member.replica.is_full:
            yield Risk(f"the disk of {node} is full", f"make room in {member.path}; it goes on by itself")
        if member.refusal:
            advice = f"if the log of the master is to stay: rtmw log members {name} replace {node}"
            yield Risk(f"{node} follows no master: {member.refusal}", advice)
        if member.stray:
            advice = f"rtmw log members {name} add {node} gives it a copy of its own; else remove {member.path}, and "
            yield Risk(member.stray, f"{advice}{name}.* in {self._server.data / 'marks'}")
        if member.trouble:
            yield Risk(f"{node} cannot use the control store: {member.trouble}", "restore what the store had")

    def _risks(self, member: Member, status: w.Status, settings: w.Settings) -> Iterator[Risk]:
        store, missing, least = self._server.store, sorted(status.members - status.in_sync), settings.min_insync
        if not status.master:
            who, away = ", ".join(sorted(status.in_sync)), self._away(status.in_sync)
            words = f"; in sync: {who}" if who else ""
            words += f"; node {self.node} does not reach {', '.join(away)}" if away else ""
            advice = "bring back the control store, and a node that is in sync; rtmw log rescue, if all those are lost"
            yield Risk(f"no master is known: appends wait until there is one{words}", advice)
        if status.role is Role.MASTER and (took := member.slowest_sync()) > settings.sync_timeout:
            words = f"the disk of {self.node}, the master, takes {duration(took)} to sync: appends are as late, or are "
            how = f"rtmw log move {member.name}" if len(status.in_sync) > 1 else "add members, and move the log"
            yield Risk(f"{words}answered PENDING", f"{how}; then see why the disk of {self.node} is slow")
        for node, (size_, age) in member.lags().items():
            if node in status.in_sync and age > settings.sync_timeout:
                words = f"{node} has not acknowledged {size(size_)} for {duration(age)}: records go to the control "
                advice = f"see why node {node} is slow or stands still; after `lag` it leaves, if enough are left"
                yield Risk(f"{words}store, or are answered PENDING", advice)
        if missing:
            words = f"{', '.join(missing)} not in sync: new records are on {len(status.in_sync)} of "
            advice = f"see why {missing[0]} is away or behind: rtmw node doctor --node, its log, its disk"
            yield Risk(f"{words}{len(status.members)}", advice)
        if 0 < len(status.in_sync) < least:
            words = f"min_insync is {least}, and no more than {len(status.in_sync)} in sync"
            yield Risk(f"{words}: appends are answered PENDING", "bring others back, or replace them: rtmw log members")
        elif len(status.in_sync) == least and len(status.members) > 1:
            words = (
                f"min_insync is {least}, and as many are in sync: if one of them fails, records go to the control "
                "store, and are answered CACHED, then PENDING"
            )
            yield Risk(words, "bring others back, or add a member", not missing)
        if least == 1:
            words = "min_insync is 1: a record may be on one disk alone when it is answered"
            yield Risk(words, "make logs that must not be lost with --min-insync 2", True)
        if (age := member.checkpoint_age()) > _OLD_S:
            words = (
                f"the checkpoint has not risen for {duration(age)}: segments above it are not trimmed, and a rescue "
                "knows less of what may be missing"
            )
            yield Risk(words, "see that the control store takes changes, and that members in sync have room")
        if status.cached:
            words = f"{size(status.cached)} are in the control store, since members have not acknowledged them"
            yield Risk(words, "they go by themselves, once the member has them or leaves", True)
        for fault in filter(None, (store.fault, store.tight)):
            advice = "appends go on while all members are in sync; without it no other master can be made"
            yield Risk(f"the control store: {fault}", advice)
        if "on this host" in store.where:
            words = f"{store.where}: if that disk is lost, no master can be made any more"
            yield Risk(words, "use etcd, if the log is to outlive this host", True)


async def _until(is_met: Callable[[], bool], seconds: float) -> None:
    """Then it goes on with what there is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(min(seconds, _ANSWER_S)):
            while not is_met():
                await asyncio.sleep(_AGAIN_S)


def _name(what: str, told: Any) -> str:
    """ValueError says what it was meant to be."""
    try:
        return values.name(told)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _check_times(settings: w.Settings) -> None:
    """ValueError: members would come and go all the time."""
    least, beat = _LEAST_LAG * settings.suspect, settings.suspect / BEATS
    if settings.suspect < _LEAST_SUSPECT_S:
        raise ValueError(
            f"suspect is {duration(settings.suspect)}: a busy machine is silent for so long, and another master would "
            f"come each time; give at least {duration(_LEAST_SUSPECT_S)}"
        )
    if settings.lag < least:
        raise ValueError(
            f"lag is {duration(settings.lag)}, and a member says how far it is every {duration(beat)}, a fifth of "
            f"suspect: it would leave and come back all the time; give at least {duration(least)}"
        )


def _check_member(member: Member, node: str) -> None:
    if node not in (ids := _ids(member)):
        raise LogError(f"node {node} is no member of log {member.name}; they are {', '.join(sorted(ids))}")


def _ids(member: Member) -> dict[str, str]:
    """Returns the ids of a log's members, by their nodes."""
    return {node_of(one): one for one in member.replica.control.members}


def _missing(member: Member, control: w.Control, kept: int) -> list[str]:
    """What a rescue may lose."""
    gone = ", ".join(sorted(map(node_of, control.in_sync)))
    said = [
        f"only the copies of {gone} are known to have all that was answered; this one has records up to {kept}, and "
        "what lies behind is lost, also where another member comes back with it"
    ]
    if control.checkpoint > kept:
        said.append(f"records from {kept} to {control.checkpoint} were answered as written, and are lost")
    if control.cached > kept:
        said.append(f"the cache from {kept} to {control.cached} does not continue this copy, and is lost")
    if member.copying or member.replica.role is Role.BEHIND:
        aside = member.path.with_name(f".{member.name}.aside")
        said.append(f"this copy is being made anew; what it was before may lie in {aside}")
    return said
