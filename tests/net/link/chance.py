"""What may happen to two controls, drawn from one seed: programs, rules, settings and lines come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rtmw.net.neighbours import Subscribing
from rtmw.qos import Reliability
from tests.net.link.told import check_told
from tests.net.link.world import WISHES, Message, Node, World


def run(seed: int) -> Counter[str]:
    """A world with everything that can happen in it."""
    world = World(seed)
    world.connect()
    for _ in range(6):
        for _ in range(world.random.randrange(40)):
            node = world.random.choice(world.nodes)
            what = world.random.random()
            if what < 0.2:
                world.change(node)
            elif what < 0.25:
                world.change_rules(node)
            elif what < 0.28:
                world.change_settings(node)
            elif what < 0.32:
                toggle(world, node)
            elif what < 0.5:
                world.publish_some(node)
            elif what < 0.51:
                world.connect()
            elif what < 0.52:
                world.part(node)
            elif what < 0.56:
                world.stuck = world.random.choice([0, *world.nodes[0].into, *world.nodes[1].into])
            else:
                world.move()
        world.check()
        check_told(world)
        world.seen["checked"] += 1
        run_steady(world)
    return world.seen


def run_steady(world: World) -> None:
    """What is needed all the time loses nothing, whatever changes beside it."""
    sender, taker = world.random.sample(world.nodes, 2)
    steady = world.needed(sender)
    before, sent = len(taker.came), list[Message]()
    for _ in range(20):
        what = world.random.random()
        if what < 0.4:
            sent += [world.publish(sender, lane) for lane in steady]
        elif what < 0.6:
            want_more(world, taker)
        else:
            world.move()
    world.check()
    came = [message for message in taker.came[before:] if message in set(sent)]
    assert Counter(came) == Counter(sent), "a lane that was needed all the time has lost something"
    world.seen["steady"] += len(sent)


def toggle(world: World, node: Node) -> None:
    """The subscribers of a topic go, and come again at once: while routes are being left."""
    if node.topics:
        topic = world.random.choice([*node.topics])
        local = node.topics[topic]
        node.topics = {**node.topics, topic: replace(local, subscribers=())}
        world.see(node, topic)
        for _ in range(world.random.randrange(12)):
            world.move()
        node.topics = {**node.topics, topic: local}
        world.see(node, topic)


def want_more(world: World, node: Node) -> None:
    """One more subscriber, who wants what others do not: nobody else may notice."""
    if node.topics:
        topic = world.random.choice([*node.topics])
        local = node.topics[topic]
        more = Subscribing(world.random.choice(WISHES), Reliability.TIMELY, 8, world.random.choice((0, 3)), 0, 0)
        node.topics = {**node.topics, topic: replace(local, subscribers=(*local.subscribers, more))}
        world.see(node, topic)
