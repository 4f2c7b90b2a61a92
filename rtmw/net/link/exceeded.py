"""Ceilings of the rules that messages of a peer's topics have exceeded, in either direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rtmw.net.link.said import Said
from rtmw.net.link.side import Refusal
from rtmw.net.security.rights import Rights
from rtmw.net.security.rules import Verdict
from rtmw.units import size


class Way(NamedTuple):
    """A direction of topics, as the rules and the sentences about it have it."""

    verb: str
    kept: str
    log: str


WAYS: Final = {
    "out": Way(
        "subscribe",
        "kept from it",
        "%s may not have all of %s by the rules (%s); what exceeds it is not sent to it, and is counted",
    ),
    "in": Way(
        "publish",
        "not taken from it",
        "%s sends more of %s than the rules allow (%s); what exceeds it is dropped and counted",
    ),
}


class Exceeded:
    """Of one link. Not for several threads."""

    def __init__(self, rights: Rights, peer: str) -> None:
        self._rights, self._peer = rights, peer
        self._said = Said[tuple[str, str, str]]()
        """Directions, topics and ceilings."""

    def is_news(self, way: str, topic: str, ceiling: str) -> bool:
        """A message has exceeded it. False: one did before."""
        return self._said.is_news((way, topic, ceiling))

    def forget(self) -> None:
        """The ceilings may be others from now on."""
        self._said.clear()

    def why(self, way: str, topic: str) -> Iterator[Refusal]:
        """Why some messages of a topic that crosses do not, each with the rule that says so."""
        verdict = self._rights.may(self._peer, WAYS[way].verb, topic)
        for ceiling, words in _ceilings(verdict).items():
            if (way, topic, ceiling) in self._said:
                yield Refusal(ceiling, f"messages above {words} are {WAYS[way].kept} by {verdict.place}")


def _ceilings(verdict: Verdict) -> dict[str, str]:
    return {
        "priority": f"priority {verdict.max_priority}",
        "size": size(verdict.max_size),
        "rate": f"{size(verdict.max_rate)}/s",
    }
