"""Shared by both directions of a link: the peer, the settings of this side, and where effects go."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from rtmw.net.link import effects as do
from rtmw.net.link.messages import Message, pack
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rules import CAUSES, Rights

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
    """The cause in one word, which is the label of a counter."""
    why: str

    @property
    def label(self) -> str:
        """The cause, also where a peer has made it up: of a known one."""
        return self.cause if self.cause in _DENIALS else "other"


class Budget(NamedTuple):
    """The most that the nodes of one peer may take of this host together."""

    topics: int
    """Topics that they want, and as many that they publish."""
    types: int
    """Types that they bring and that no subscriber here asks for by name."""
    publishers: int
    subscribers: int
    """Slots of the domain, for what they send and for what they get."""
    names: int
    """Bytes of the controls that are remembered of them."""


log = logging.getLogger("rtmw.node")

ENDLESS: Final = Budget(*[1 << 62] * 5)
_MEANT: Final = {
    "wanted": ("topics", "a peer may want {} topics"),
    "published": ("topics", "a peer may publish {} topics"),
    "programs": ("topics", "a peer may tell of programs of {} topics"),
    "types": ("types", "a peer may bring {} types that nobody else here asks for"),
    "publishers": ("publishers", "what a peer sends may take {} publishers"),
    "subscribers": ("subscribers", "what a peer gets may take {} subscribers"),
    "names": ("names", "all that a peer names may have {} bytes"),
}
"""What is counted: the field of the budget that bounds it, and how the peer is told."""


class Account:
    """What the nodes of one peer, which have one name, have taken of this host. Not for several threads."""

    def __init__(self, name: str = "", budget: Budget = ENDLESS) -> None:
        """`name`: as the log has it."""
        self._name, self.budget = name, budget
        """The budget from the next `take` on. What exceeds a new budget stays taken."""
        self._holders: dict[str, Counter[Hashable]] = {what: Counter() for what in _MEANT}
        self._taken, self._refused = Counter[str](), Counter[str]()

    def take(self, what: str, one: Hashable, size: int) -> str:
        """What has the same name as another that is taken, costs nothing more. Empty: it is taken; else why not."""
        why, holders = self.why_not(what, one, size), self._holders[what]
        if not why:
            self._taken[what] += 0 if one in holders else size
            holders[one] += 1
        return why

    def why_not(self, what: str, one: Hashable, size: int = 1) -> str:
        """Why there is no room for it, which is counted, and logged once; empty: there is."""
        field, words = _MEANT[what]
        most = int(getattr(self.budget, field))
        if one in self._holders[what] or self._taken[what] + size <= most:
            return ""
        why = f"{words.format(most)} (max_{field} of [link])"
        if not self._refused[what]:
            log.warning("%s asks for more than it may take here: %s; more of it is counted only", self._name, why)
        self._refused[what] += 1
        return why

    def drop(self, what: str, one: Hashable, size: int) -> None:
        holders = self._holders[what]
        holders[one] -= 1
        if not holders[one]:
            del holders[one]
            self._taken[what] -= size

    def rows(self) -> list[dict[str, Any]]:
        """How much is taken, how much may be, and how often more was refused."""
        return [
            {"what": what, "taken": self._taken[what], "most": int(getattr(self.budget, field)),
             "refused": self._refused[what]}
            for what, (field, _) in _MEANT.items()
        ]  # fmt: skip


class Share:
    """The part of an account that one line has taken. Not for several threads."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._held: dict[tuple[str, Hashable], tuple[Hashable, int]] = {}

    def take(self, what: str, holder: Hashable, size: int = 1, one: Hashable = None) -> str:
        """`holder`: a topic or a route of this line; what it had is dropped. `one`: what several may hold together.
        Empty: it is taken; else why not, in words."""
        self.drop(what, holder)
        named = (id(self), holder) if one is None else one
        refused = self.account.take(what, named, size)
        if not refused:
            self._held[what, holder] = (named, size)
        return refused

    def drop(self, what: str, holder: Hashable) -> None:
        """Idempotent."""
        held = self._held.pop((what, holder), None)
        if held is not None:
            self.account.drop(what, *held)

    def close(self) -> None:
        """The line is over. Idempotent."""
        for what, holder in [*self._held]:
            self.drop(what, holder)


class Side:
    """What both directions of one link share on this side."""

    def __init__(self, peer: str, rights: Rights, patterns: Patterns, account: Account) -> None:
        """`peer`: the name that its certificate has. `account`: of all its nodes."""
        self.peer, self.rights, self.patterns, self.share = peer, rights, patterns, Share(account)
        self.topics: Mapping[str, LocalTopic] = {}
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
