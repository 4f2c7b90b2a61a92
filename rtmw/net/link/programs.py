"""Who publishes and subscribes at the other end of a link, for people: each end tells it topic by topic.

An end tells of a program if and only if the peer has a right to what that does: a publisher's topic may be had by the
peer, a subscriber's may be brought by it, and both are let through by the settings here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rtmw.net.link.messages import MOST, PROGRAMS_MOST, Programs, Using, pack
from rtmw.net.link.side import Side


class KnownPrograms:
    """Of one link. Not for several threads."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._told: dict[str, tuple[Using, ...]] = {}
        self.there: dict[str, tuple[Using, ...]] = {}
        """Programs of the peer, by topic, as it tells."""

    def told(self) -> Iterable[str]:
        """Topics of which the peer was told programs."""
        return self._told.keys()

    def see(self, topic: str, here: tuple[Using, ...]) -> None:
        """These programs use the topic here: tell the peer, if it may know and it is news."""
        may_know = {publishes: self._may_know(topic, publishes) for publishes in {one.publishes for one in here}}
        told = _fitting(Programs(topic, tuple(one for one in here if may_know[one.publishes])))
        if told.programs == self._told.get(topic, ()):
            return
        self._side.say(told)
        if told.programs:
            self._told[topic] = told.programs
        else:
            del self._told[topic]

    def _may_know(self, topic: str, publishes: bool) -> bool:
        side, verb = self._side, "subscribe" if publishes else "publish"
        passes = side.patterns.leaves(topic) if publishes else side.patterns.enters(topic)
        return passes and side.rights.may(side.peer, verb, topic).allowed

    def hear(self, said: Programs, size: int) -> None:
        """`size`: bytes of the control. What there is no room for is not remembered."""
        self.there.pop(said.topic, None)
        share, holder = self._side.share, (said.topic, "programs")
        for what in ("programs", "names"):
            share.drop(what, holder)
        self._side.changes += 1
        if said.programs and not (share.take("programs", holder) or share.take("names", holder, size)):
            self.there[said.topic] = said.programs


def _fitting(told: Programs) -> Programs:
    """As many of the programs as fit into a control."""
    told = replace(told, programs=told.programs[:PROGRAMS_MOST])
    while len(pack(told)) > MOST:
        told = replace(told, programs=told.programs[: len(told.programs) // 2])
    return told
