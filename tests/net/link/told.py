"""What each side of the world of chance has to know of what the other one denies, when nothing moves."""

from __future__ import annotations

from rtmw.net.link.routes import NOBODY, Refusal
from tests.net.link.world import NAMES, TOPICS, Node, World


def check_told(world: World) -> None:
    """It knows the cause, and nothing depends on what programs of the other side do."""
    for sender in world.nodes:
        for topic in TOPICS:
            _check(topic, sender, world.nodes[1 - sender.index])


def _check(topic: str, sender: Node, taker: Node) -> None:
    assert sender.control is not None
    assert taker.control is not None
    own = sender.rights.may(NAMES[taker.index], "subscribe", topic)
    refusal, denial = sender.control.outgoing.why_not(topic), _denial_there(topic, sender, taker)
    if not sender.topics.get(topic, NOBODY).publishers:
        assert refusal is None or not own.allowed, "denied, though it is not published"
    elif own.allowed and sender.settings.leaves(topic):
        assert _cause(refusal) == denial, "the publishing end does not know whether it is denied"
    if not denial and taker.topics.get(topic, NOBODY).subscribers:
        heard = _cause(taker.control.incoming.why_not(topic))
        assert heard == own.cause, "the subscribing end does not know whether it is denied"


def _denial_there(topic: str, sender: Node, taker: Node) -> str:
    """Why the taker does not let it in; empty: it does."""
    verdict = taker.rights.may(NAMES[sender.index], "publish", topic)
    return verdict.cause if not verdict.allowed else "" if taker.settings.enters(topic) else "topics_in"


def _cause(refusal: Refusal | None) -> str:
    """Of a denial: that nobody wants a topic any more is none."""
    return "" if refusal is None or refusal.cause == "unwanted" else refusal.cause
