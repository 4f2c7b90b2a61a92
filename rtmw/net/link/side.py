"""Shared by both directions of a link: the peer, the settings of this side, and where effects go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from rtmw.net.link import effects as do
from rtmw.net.link.messages import Message, pack
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rights import Rights
from rtmw.net.security.rules import CAUSES

TOPICS_MOST: Final = 20_000
"""Topics that a peer may want, and routes that it may open; what is more is refused."""
REMEMBERED_MOST: Final = 32 << 20
"""Bytes of controls that a peer may have this side remember: what it wants, and the routes that it opens."""
_DENIALS: Final = frozenset({*CAUSES, "topics_in", "crowd", "host"})
"""Causes for which a topic is denied."""
NOBODY: Final = LocalTopic((), ())
"""A topic that no program here uses."""


class Patterns(Protocol):
    """The settings for topics, for any peer."""

    def leaves(self, topic: str) -> bool: ...
    def enters(self, topic: str) -> bool: ...


class Refusal(NamedTuple):
    """Why a topic does not cross."""

    cause: str
    """One word: the label of a counter."""
    why: str

    @property
    def label(self) -> str:
        """The cause, also where a peer has made it up: of a known one."""
        return self.cause if self.cause in _DENIALS else "other"


class Memory:
    """Bytes of controls that are remembered for a peer."""

    def __init__(self) -> None:
        self._sizes: dict[str | int | tuple[str, ...], int] = {}
        self._total = 0

    def take(self, of: str | int | tuple[str, ...], size: int) -> bool:
        """A topic that is wanted, a route, or, in a tuple, a topic that is advertised or has programs, in place of what
        was remembered of it. False: there is no room."""
        self.drop(of)
        if self._total + size > REMEMBERED_MOST:
            return False
        self._sizes[of] = size
        self._total += size
        return True

    def drop(self, of: str | int | tuple[str, ...]) -> None:
        self._total -= self._sizes.pop(of, 0)


class Side:
    """This end of one link."""

    def __init__(self, peer: str, rights: Rights, patterns: Patterns) -> None:
        """`peer`: the name that its certificate has."""
        self.peer, self.rights, self.patterns = peer, rights, patterns
        self.topics: Mapping[str, LocalTopic] = {}
        self.memory = Memory()
        self.explained: set[str] = set()
        """Topics whose reason for not crossing may have changed. The reader empties it."""
        self.changes = 0
        """Number of changes of what the peer wants or sends."""
        self.failed: dict[str, None] = {}
        """Topics of which a route had no room on this host."""
        self._effects: list[do.Effect] = []

    def topic(self, name: str) -> LocalTopic:
        return self.topics.get(name, NOBODY)

    def act(self, effect: do.Effect) -> None:
        self._effects.append(effect)

    def say(self, message: Message) -> None:
        self._effects.append(do.Say(pack(message)))

    def taken(self) -> list[do.Effect]:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects
