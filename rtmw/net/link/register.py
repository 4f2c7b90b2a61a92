"""Which line this node has with which other one, without I/O: who may have one, what goes on and what begins.

Both nodes may dial at the same time, and either may have lost its state. So: (1) a newer pair of connections takes the
place of an older one; (2) where both dial each other at once, the pair of the smaller UUID stays; (3) a line goes on if
and only if both hold it; else both forget what they held, and another line begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from rtmw.net.link.messages import Hello, Join, Joined
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.hello import chooses, version_of
from rtmw.net.session.meetings import PEERS_OF_A_NAME

PEERS_MOST: Final = 1000

PeerKey = tuple[str, UUID]
"""The identity of a peer: the name in its certificate (empty: it has none), and the UUID that it says. A UUID alone is
nobody's: a peer with any certificate may say that of another node."""


@dataclass(frozen=True)
class Held:
    """A line."""

    number: int
    peer: Hello


class Register:
    """The lines of a node, by the peer."""

    def __init__(self, mine: Hello, random: Callable[[], int]) -> None:
        """`random`: a number from 1 to 2^63 - 1."""
        self.mine, self._random = mine, random
        self.held: dict[PeerKey, Held] = {}
        self._greeted: dict[PeerKey, int] = {}
        """Peers that this node is dialling, and how often."""

    def check(self, peer: Hello, name: str) -> None:
        """May this peer have a line, by what its hello says? Raises Violation."""
        version_of(self.mine, peer)
        held = self.held.get((name, peer.node))
        if held is not None and peer.incarnation < held.peer.incarnation:
            raise Violation("a later life of the node is here already", Code.SUPERSEDED)
        if held is None and len(self.held) >= PEERS_MOST:
            raise Violation(f"{PEERS_MOST} nodes are here already", Code.REFUSED)
        if held is None and name and sum(other == name for other, _ in self.held) >= PEERS_OF_A_NAME:
            raise Violation(f"{PEERS_OF_A_NAME} nodes with the name {name} are here already", Code.REFUSED)

    def begin(self, peer: PeerKey) -> int:
        """This node dials the peer, which has said hello. The line that both may hold; 0: none. Raises Violation when
        the two have connections already that this node has dialled. To be ended with `over`."""
        self._greeted[peer] = self._greeted.get(peer, 0) + 1
        held = self.held.get(peer)
        return held.number if held else 0

    def over(self, peer: PeerKey) -> None:
        """The attempt that `begin` began has ended, with or without a link."""
        self._greeted[peer] -= 1
        if not self._greeted[peer]:
            del self._greeted[peer]

    def join(self, peer: Hello, name: str, join: Join) -> Joined:
        """The peer has dialled, and both its connections are here. Raises Violation."""
        self.check(peer, name)
        key = (name, peer.node)
        if key in self._greeted and chooses(self.mine.node, peer.node):
            raise Violation("both nodes have dialled; the connections of the other one are used", Code.REPLACED)
        held = self.held.get(key)
        if held is not None and held.number == join.line and held.peer.incarnation == peer.incarnation:
            return Joined(held.number, True)
        self.held[key] = Held(self._random(), peer)
        return Joined(self.held[key].number, False)

    def joined(self, peer: Hello, name: str, joined: Joined) -> None:
        """The peer has answered. Raises Violation if it goes on with what is not held here."""
        self.check(peer, name)
        held = self.held.get((name, peer.node))
        if not joined.is_held:
            self.held[(name, peer.node)] = Held(joined.line, peer)
        elif held is None or held.number != joined.line or held.peer.incarnation != peer.incarnation:
            raise Violation("the peer goes on with a line that has ended here", Code.FORGOTTEN)

    def forget(self, peer: PeerKey, number: int) -> None:
        """A line is over, unless another one has taken its place."""
        held = self.held.get(peer)
        if held is not None and held.number == number:
            del self.held[peer]
