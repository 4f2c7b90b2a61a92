"""Users of one host: a link over a Unix socket, at which the kernel says who is at the other end."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.link.linked import TOLD
from tests import warm
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.link.nodes import LinkedPair
from tests.net.link.test_security import says
from tests.users import ALICE, BOB, give_domain, needs_users, of_user

RELIABLE = Reliability.RELIABLE


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    with tempfile.TemporaryDirectory() as folder:  # that of a test may have too long a name for a socket
        Path(folder).chmod(0o755)
        pair = LinkedPair(tmp_path, unix=Path(folder, "a.sock"))
        yield pair
        pair.end()


def run_as(host: Host, uid: int) -> Host:
    """The programs of this host's domain are another user's; root looks on."""
    give_domain(host.number, uid)
    host.place = of_user(uid)
    return host


def publisher(host: Host, topic: str) -> rtmw.Publisher[bytes]:
    return rtmw.Publisher(topic, reliability=RELIABLE, max_blocking=PATIENCE, domain=host.domain)


def subscriber(host: Host, topic: str) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(topic, reliability=RELIABLE, domain=host.domain)


def shown(host: Host, *command: str) -> str:
    where = ["--domain", str(host.number)] if command[0] != "node" or command[1] == "info" else []
    return warm.run(*command, *where, check=True).stdout


def examined(host: Host) -> dict[str, tuple[str, str]]:
    """What the doctor finds, and its advice."""
    document = json.loads(warm.run("node", "doctor", "--json", "--domain", str(host.number)).stdout)
    return {one["name"]: (one["found"], one["advice"]) for one in document["checks"]}


@needs_users
# Proves G248.
def test_18_another_user_has_only_its_rules(linked: LinkedPair) -> None:
    linked.rules["hub"] = f'[[allow]]\npeer = "uid:{ALICE}"\npublish = ["press/*"]\nsubscribe = ["alarm/*"]\n'
    linked.rules["press"] = '[[allow]]\npeer = "uid:0"\npublish = ["*"]\nsubscribe = ["*"]\n'
    run_as(linked.press, ALICE)
    linked.start().wait_up()
    (row,) = linked.peers("hub")
    assert (row["peer"], row["user"], row["cipher"]) == (f"uid:{ALICE}", f"uid:{ALICE}", None)
    assert not row["crc"], "no byte leaves the host"
    assert row["address"] == f"unix:{linked.unix}"
    assert linked.peers("press")[0]["peer"] == "uid:0"
    with ExitStack() as stack:
        takers = {
            topic: stack.enter_context(subscriber(host, topic))
            for host, topic in ((linked.hub, "press/a"), (linked.hub, "hub/a"), (linked.press, "alarm/a"))
        }
        secret = stack.enter_context(subscriber(linked.press, "secret"))
        outs = {
            topic: stack.enter_context(publisher(host, topic))
            for host, topic in ((linked.press, "press/a"), (linked.press, "hub/a"), (linked.hub, "alarm/a"))
        }
        kept = stack.enter_context(publisher(linked.hub, "secret"))
        wait_until(lambda: linked.crossed("hub", "in", "press/a")["writers"] == 1, "what it may bring")
        wait_until(lambda: linked.crossed("hub", "out", "alarm/a")["readers"] == 1, "what it may get")
        for out in (*outs.values(), kept):
            assert out.publish(b"x")
        for topic in ("press/a", "alarm/a"):
            assert takers[topic].receive(timeout=PATIENCE).value == b"x"
        reasons = {row["topic"]: row["reason"] for row in linked.hub.info()["apart"] if "uid:" in row["reason"]}
        assert reasons["hub/a"].endswith("no rule allows this peer to publish it")
        assert reasons["secret"].endswith("no rule allows this peer to subscribe it")
        assert (takers["hub/a"].take(), secret.take()) == (None, None)
        assert f"on uid:{ALICE}  RELIABLE" in shown(linked.hub, "graph")


@needs_users
# Proves G248.
def test_a_user_for_whom_no_rule_is_gets_no_link_and_both_say_why(linked: LinkedPair) -> None:
    linked.rules["hub"] = f'[[allow]]\npeer = "uid:{ALICE}"\npublish = ["*"]\n'
    run_as(linked.press, BOB)
    linked.start()
    says(linked, "hub", f"no rule is for uid:{BOB}")
    says(linked, "press", f"the peer refuses: no rule is for uid:{BOB}")
    wait_until(lambda: bool(linked.hub.info()["links"]["denials"]), "the denial is counted")
    assert linked.peers("hub") == linked.peers("press") == []


@needs_users
# Proves G248.
def test_a_user_who_says_that_it_is_another_is_told_by_the_kernel_who_it_is(linked: LinkedPair) -> None:
    """Keys of the press do not help bob: at a Unix socket nobody asks for a certificate."""
    linked.with_keys()
    linked.rules["hub"] = '[[allow]]\npeer = "rtmw://plant/*"\npublish = ["*"]\n'
    run_as(linked.press, BOB)
    assert linked.site
    for one in (linked.site.folder / "plant-press", *(linked.site.folder / "plant-press").iterdir()):
        one.chmod(0o700 if one.is_dir() else 0o600)
    linked.link["press"] = ""
    linked.start()
    says(linked, "hub", f"no rule is for uid:{BOB}")
    assert linked.peers("hub") == []


def test_what_is_published_crosses_once_though_the_nodes_meet_over_dds_too(linked: LinkedPair) -> None:
    shared = free_number()
    own = '[[allow]]\npeer = "uid:*"\npublish = ["*"]\nsubscribe = ["*"]\n'
    for name, host in linked.hosts.items():
        host.dds_domain = shared
        linked.rules[name] = own
    linked.start().wait_up()
    for host in linked.hosts.values():
        wait_until(lambda: len(host.info()["peers"]) == 1, "they meet over DDS")  # noqa: B023
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: linked.crossed("hub", "in", "a")["writers"] == 1, "the route over the link")
        for number in range(200):
            assert out.publish(b"%d" % number)
            assert taker.receive(timeout=PATIENCE).value == b"%d" % number
        assert taker.take() is None
        assert linked.hub.crossed("in", "a", "nodes")["received"] == 0
        assert linked.press.crossed("out", "a", "nodes")["readers"] == 0


# Proves G248.
def test_a_peer_that_stands_still_is_cut_and_goes_on_within_the_lease_without_a_loss(linked: LinkedPair) -> None:
    for name in linked.hosts:
        linked.link[name] = "lease = 8\n"
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: linked.crossed("hub", "in", "a")["writers"] == 1, "the route")
        sent = [b"%d" % number for number in range(400)]
        for message in sent[:50]:
            assert out.publish(message)
        halt(linked.hub)
        try:
            for message in sent[50:100]:
                assert out.publish(message)
            wait_until(lambda: "is cut" in linked.press.said, "nothing comes for half the lease")
        finally:
            go_on(linked.hub)
        for message in sent[100:]:
            assert out.publish(message)
            if len(message) == 3:
                assert taker.receive(timeout=PATIENCE).value in sent
        while (sample := taker.take()) is not None or linked.crossed("hub", "in", "a")["received"] < len(sent):
            del sample
        wait_until(lambda: linked.peers("hub")[0]["resumes"] >= 2, "it went on")
        assert linked.crossed("hub", "in", "a")["received"] == len(sent)
        assert taker.stats().missed == 0


def test_max_rate_holds_at_a_unix_socket(linked: LinkedPair) -> None:
    linked.link["press"] = 'max_rate = "1M"\n'
    linked.start().wait_up()
    with subscriber(linked.hub, "a") as taker, publisher(linked.press, "a") as out:
        wait_until(lambda: linked.crossed("hub", "in", "a")["writers"] == 1, "the route")
        begun = time.monotonic()
        for _ in range(20):
            assert out.publish(bytes(100_000))
        for _ in range(20):
            taker.receive(timeout=PATIENCE)
        assert time.monotonic() - begun >= 2_000_000 / (1 << 20) - 0.2, "but for what is under way at once"


def test_a_node_that_was_killed_leaves_a_socket_that_the_next_one_replaces(linked: LinkedPair) -> None:
    linked.start().wait_up()
    linked.hub.kill()
    assert linked.unix
    assert linked.unix.is_socket()
    linked.start("hub").wait_up()
    third = Host(free_number(), free_number(), linked.folder)
    try:
        third.launch("--config", str(linked.settings("hub")))
        assert third.node.wait(PATIENCE) != 0
        assert f"unix:{linked.unix} cannot be had: another program listens there" in third.said
    finally:
        third.end()
    assert linked.is_up("press")
    linked.hub.stop()
    assert not linked.unix.exists()


def test_check_explain_and_doctor_know_users_and_unix_sockets(linked: LinkedPair) -> None:
    path = str(linked.settings("hub"))
    assert "the kernel says which user connects" in shown(linked.hub, "node", "check", path)
    linked.start().wait_up()
    assert "within this host" in shown(linked.hub, "node", "info")
    linked.wait_up()
    assert linked.unix
    found = examined(linked.hub)
    assert found[f"link with uid:{os.geteuid()}"][0].startswith("up, within this host")
    assert found["links are accepted at"] == (f"unix:{linked.unix}, the kernel says which user connects", "")
    linked.press.kill()
    wait_until(lambda: not linked.is_up("hub"), "the link is cut")
    assert [peer["down_code"] for peer in linked.peers("hub")] != [TOLD], "who is killed says nothing"
    linked.unix.unlink()
    found = examined(linked.hub)
    assert "does the node of that user run?" in found[f"link with uid:{os.geteuid()}"][1]
    assert "nobody can connect there any more" in found["links are accepted at"][1]
    right = shown(linked.hub, "node", "check", path, "--as", "uid:1000", "publish", "a")
    assert "allowed" in right
    assert "uid:1000" in shown(linked.hub, "node", "explain", "a", "--peer", "uid:1000", "--file", path)
