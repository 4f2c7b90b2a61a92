"""Who may tell whom what (R2): the rules of the settings, asked with the addresses that stand in frames."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rtmw.net.security.names import AGENT, user_name
from rtmw.net.security.rules import KEPT, Rights, Verdict
from rtmw.relay.frame import ALL, LETTER, Filter, Frame, FrameError, Kind, frame_of, readable
from rtmw.relay.kqml import (
    BROKEN,
    ERROR,
    SORRY,
    SUBSCRIBE,
    UNSUBSCRIBE,
    KqmlError,
    Performative,
    parse,
    performative_of,
)
from rtmw.relay.rows import REFUSED, Row
from rtmw.relay.settings import OWN_NAME, Agent, Relay, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Judged", "Policy", "Wish", "command_of", "subject_of"]

_PLAIN: Final = re.compile(LETTER.encode())
_SAID: Final = frozenset(
    {"from", "command", "about", "reply-with", "in-reply-to", "sender", "receiver", "language", "ontology"}
)
"""Parameters of a subscription; any other would narrow it, and is an error."""


@dataclass(frozen=True)
class Judged:
    """The answer to an order."""

    verdict: Verdict | None
    """None: one of the addresses is nobody's."""
    to: Agent | Subject | None
    why: str
    """In words; empty: it is allowed."""
    priority: int = 0
    lifetime: float = 0.0
    """Seconds; 0: as the relay has it."""


@dataclass(frozen=True)
class Wish:
    """A subscription that an agent begins, or ends."""

    judged: Judged
    filter: Filter = ALL
    is_end: bool = False


def command_of(command: bytes) -> str:
    """A command as a part of a subject: its letter, or `0x07`."""
    return command.decode() if _PLAIN.fullmatch(command) else f"0x{command[0]:02x}"


def performative_in(agent: Agent, frame: Frame) -> str | None:
    """The one that the data begins with; None: it is in another form than KQML."""
    return performative_of(frame.data.removeprefix(BOM_UTF8).decode(agent.charset, "replace"))


def subject_of(to: str, command: bytes, performative: str | None = None) -> str:
    """The subject that a right to this order is about."""
    return "/".join(filter(None, (to, command_of(command), performative)))


class Policy:
    """The rules of one relay. `obey` replaces its settings as a whole."""

    def __init__(self, relay: Relay) -> None:
        self.rights = Rights(relay.rules)
        self._names(relay)

    def obey(self, relay: Relay) -> None:
        self.rights.swap(relay.rules)
        self._names(relay)

    def _names(self, relay: Relay) -> None:
        self.relay = relay
        self.by_name = {one.name: one for one in relay.addressees}
        self.agents = {one.name: one for one in relay.agents}
        self.own = Agent(OWN_NAME, relay.address, id="stamp")
        """The relay, as the source of its own orders."""
        self.by_address = {one.address: one for one in (self.own, *relay.addressees)}
        self.places: dict[str, dict[bytes, Agent]] = {}
        """The agents that need no certificate, by the host that they connect from, or their user; then by address."""
        for one in relay.agents:
            if one.uid is not None:
                self.places.setdefault(user_name(one.uid), {})[one.address] = one
            if one.origin and not one.peer:
                self.places.setdefault(one.origin, {})[one.address] = one
        self._kept = lru_cache(KEPT)(self._judge)

    def own_order(self, to: Agent, stamp: bytes, command: bytes, data: bytes) -> Frame:
        """An order of the relay itself, as it would have come."""
        form = self.relay.form
        frame = Frame(self.own.address, to.address, stamp, form.order, command, data)
        return Frame.decode(frame.encode(form=form), form=form)

    def judge(self, agent: Agent, frame: Frame, priority: int | None = None, lifetime: float = 0.0) -> Judged:
        """May this agent send this order? It is who the connection says that it is; a frame with another source is
        refused. What is allowed is kept by addresses, command and performative, which makes this cheap. `priority` and
        `lifetime`: of a frame that has them; the rule's ceilings hold for both."""
        if frame.source != agent.address:
            return _of_another(agent, frame)
        performative = self.performative(agent, frame)
        judged = self._kept(agent.name, frame.destination, frame.command, performative)
        verdict, size = judged.verdict, len(frame.data)
        if judged.to is None or verdict is None:
            return judged
        if not verdict.allowed or not verdict.keeps(priority or 0, size):  # that counts the denial
            return self.order(agent, judged.to, frame.command, performative, priority=priority, size=size)
        if priority is not None or lifetime:
            given = judged.priority if priority is None else priority
            shorter = min(filter(None, (lifetime, judged.lifetime)), default=0.0)
            judged = replace(judged, priority=given, lifetime=shorter)
        return judged

    def performative(self, agent: Agent, frame: Frame) -> str | None:
        """The one that rules are asked with; BROKEN where the data begins as a list and is no message of KQML. It is
        read whole only where the rules would say something else then."""
        found = performative_in(agent, frame)
        if found not in (None, BROKEN):
            asked, broken = (self._kept(agent.name, frame.destination, frame.command, one) for one in (found, BROKEN))
            if asked != broken:
                try:
                    parse(frame.data.decode(agent.charset, "replace"))
                except KqmlError:
                    return BROKEN
        return found

    def wish(self, agent: Agent, frame: Frame, kind: Kind | None) -> Wish | None:
        """The subscription that a frame is about: FOLLOW and UNFOLLOW of agents of this package, KQML of others to a
        subject. None: it is an order."""
        subject = self.by_address.get(frame.destination)
        if kind in (Kind.FOLLOW, Kind.UNFOLLOW):
            try:
                filter = Filter.decode(frame.data)
                if kind is Kind.FOLLOW:
                    filter.checked()
                return self._wish(agent, frame, filter, is_end=kind is Kind.UNFOLLOW)
            except FrameError as error:
                return Wish(Judged(None, subject, str(error)))
        asked = performative_in(agent, frame) if isinstance(subject, Subject) and not subject.group else None
        if asked not in (SUBSCRIBE, UNSUBSCRIBE):
            return None
        try:
            said = parse(frame.data.decode(agent.charset, "replace").strip())
            if unknown := said.parameters.keys() - _SAID:
                raise KqmlError(f":{min(unknown)} is no parameter of {asked}; there are :from, :command and :about")
            parts = said.get("from", "*"), said.get("command", "*"), said.get("about", "*").lower()
            filter = Filter.decode(Filter(*parts).encode())  # which no text at all may be
            if asked == SUBSCRIBE:
                filter.checked()
        except (KqmlError, FrameError) as error:
            return Wish(Judged(None, subject, str(Performative(ERROR, {"content": str(error)}))))
        wish = self._wish(agent, frame, filter, is_end=asked == UNSUBSCRIBE)
        if not wish.judged.why:
            return wish
        named = {"in-reply-to": asked_as} if (asked_as := said.get("reply-with")) else {}
        return Wish(replace(wish.judged, why=str(Performative(SORRY, {**named, "content": wish.judged.why}))))

    def _wish(self, agent: Agent, frame: Frame, filter: Filter, *, is_end: bool) -> Wish:
        subject = self.by_address.get(frame.destination)
        if frame.source != agent.address:
            return Wish(_of_another(agent, frame))
        if not isinstance(subject, Subject) or subject.group:
            return Wish(Judged(None, subject, f"{readable(frame.destination)} is no subject that can be followed"))
        verdict = None if is_end else self.rights.verdict(AGENT + agent.name, "follow", subject.name)
        why = "" if verdict is None or verdict.allowed else verdict.why
        return Wish(Judged(verdict, subject, why), filter, is_end)

    def _judge(self, name: str, destination: bytes, command: bytes, performative: str | None) -> Judged:
        """Without a size, and a denial is not counted."""
        to, agent = self.by_address.get(destination), self.by_name[name]
        if to is None or not isinstance(agent, Agent):
            return Judged(None, None, f"there is no address {readable(destination)}")
        verdict = self.rights.may(AGENT + name, "order", subject_of(to.name, command, performative))
        return _given(verdict, to, None)

    def judge_again(self, row: Row) -> str:
        """Why the order of a STORED or REFUSED row would be refused by now; empty: it would be stored."""
        agent, frame = self.by_name.get(row.source), frame_of(row.head, row.body)
        if not isinstance(agent, Agent):
            return f"there is no agent {row.source}"
        judged = self.judge(agent, frame)
        if row.kind == REFUSED and judged.to is not None:  # the record has no body of it
            judged = self.order(agent, judged.to, frame.command, row.performative or None, size=row.size)
        return judged.why

    def order(
        self, agent: Agent, to: Agent | Subject, command: bytes, performative: str | None = None, *,
        priority: int | None = None, size: int = 0,
    ) -> Judged:  # fmt: skip
        """Judges an order that is given by names. `priority`: None if the frame says none; then the rule gives it
        one."""
        subject = subject_of(to.name, command, performative)
        verdict = self.rights.verdict(AGENT + agent.name, "order", subject, priority=priority or 0, size=size)
        judged = _given(verdict, to, priority)
        is_broken = judged.why and performative == BROKEN
        return replace(judged, why=f"{judged.why}: it begins as a list and is no KQML") if is_broken else judged

    def may_follow(self, subject: Subject, name: str) -> bool:
        """May this agent have what comes to a subject?"""
        return self.rights.may(AGENT + name, "follow", subject.name).allowed

    def still_follow(self, subject: Subject, names: Iterable[str]) -> list[str]:
        """Agents that may follow the subject by the present rules: those the settings subscribe to it, and those of
        `names`."""
        given = (one.name for one in self.relay.agents if subject.name in one.follows)
        found = dict.fromkeys((*given, *names))
        return [name for name in found if name in self.by_name and self.may_follow(subject, name)]

    def followers(self, subject: Subject) -> list[str]:
        """The agents that may follow a subject; of a group, its members."""
        names = [one.name for one in self.relay.agents]
        return [one for one in names if (one in subject.group if subject.group else self.may_follow(subject, one))]


def _of_another(agent: Agent, frame: Frame) -> Judged:
    return Judged(None, None, f"its source is {readable(frame.source)}, and the connection is of {agent.name}")


def _given(verdict: Verdict, to: Agent | Subject, priority: int | None) -> Judged:
    """The judgement on an order, with the priority and lifetime of the rule that allows it."""
    if not verdict.allowed or verdict.rule is None:
        return Judged(verdict, to, verdict.why)
    given = min(verdict.rule.priority, verdict.max_priority) if priority is None else priority
    return Judged(verdict, to, "", given, verdict.rule.lifetime)
