"""What both directions of a link share: who the peer is, what holds here, and where effects go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from rtmw.net.link import effects as do
from rtmw.net.link.messages import Message, pack
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rights import Rights

TOPICS_MOST: Final = 20_000
"""Topics that a peer may want, and routes that it may open; what is more is refused."""
NOBODY: Final = LocalTopic((), ())
"""A topic that no program here uses."""


class Patterns(Protocol):
    """What the settings say of topics, whoever the peer is."""

    def leaves(self, topic: str) -> bool: ...
    def enters(self, topic: str) -> bool: ...


class Refusal(NamedTuple):
    """Why a topic does not cross."""

    cause: str
    """One word: the label of a counter."""
    why: str


class Side:
    """This end of one link."""

    def __init__(self, peer: str, rights: Rights, patterns: Patterns) -> None:
        """`peer`: the name that its certificate has."""
        self.peer, self.rights, self.patterns = peer, rights, patterns
        self.topics: Mapping[str, LocalTopic] = {}
        self._effects: list[do.Effect] = []

    def topic(self, name: str) -> LocalTopic:
        return self.topics.get(name, NOBODY)

    def act(self, effect: do.Effect) -> None:
        self._effects.append(effect)

    def say(self, message: Message) -> None:
        self._effects.append(do.Say(pack(message)))

    def taken(self) -> list[do.Effect]:
        """What is to be done since it was asked last."""
        effects, self._effects = self._effects, []
        return effects
