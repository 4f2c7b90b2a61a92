"""Who gets a link, and who loses it: certificates, rules, the clock, and strangers at the port."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtmw.net.security.identity import Identity
from tests.net.hosts import go_on, halt, wait_until
from tests.net.link.nodes import LinkedPair
from tests.net.security.site import Site

TLS_RECORD = b"\x16\x03\x01\x02\x00\x01" + bytes(40)
"""As a ClientHello begins."""


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def says(linked: LinkedPair, name: str, words: str) -> None:
    wait_until(lambda: words in linked.hosts[name].said, f"{name} says {words!r}")


def test_a_peer_for_which_no_rule_is_gets_no_link_and_both_say_why(linked: LinkedPair) -> None:
    linked.rules["hub"] = '[[allow]]\npeer = "rtmw://plant/other"\npublish = ["*"]\n'
    linked.start()
    says(linked, "hub", "no rule is for rtmw://plant/press")
    says(linked, "press", "the peer refuses: no rule is for rtmw://plant/press")
    wait_until(lambda: bool(linked.hub.info()["links"]["denials"]), "the denial is counted")
    assert linked.hub.info()["links"]["denials"][0]["cause"] == "peer"
    assert linked.peers("hub") == linked.peers("press") == []


def test_an_authority_of_the_same_name_with_another_key_is_refused_in_words(linked: LinkedPair, tmp_path: Path) -> None:
    other = Site(tmp_path / "other")
    linked.link["press"] = f'keys = "{other.keys("rtmw://plant/press")}"\n'
    linked.start()
    says(linked, "press", "compare fingerprints with rtmw node keys show")
    wait_until(lambda: linked.hub.said.count("no link with") > 0, "the other end says why, too")
    assert not linked.peers("hub")


# Proves G228.
def test_a_certificate_that_expires_ends_the_link_then_and_not_before(linked: LinkedPair) -> None:
    assert linked.site
    linked.start("hub")  # so that a slow machine uses up less of the lifetime
    keys = linked.site.folder / "short"
    lifetime = 20.0
    made = Site.keys(linked.site, "rtmw://plant/brief", now=time.time() - 60, days=(lifetime + 60) / 86400)
    made.rename(keys)
    linked.link["press"] = f'keys = "{keys}"\n'
    linked.start("press").wait_up()
    expires = linked.peers("hub")[0]["expires"]
    wait_until(lambda: "is over: the certificate of rtmw://plant/brief expired" in linked.hub.said, "the end")
    assert time.time() >= expires
    wait_until(lambda: not linked.peers("hub"), "no link")


# Proves G228.
def test_a_serial_that_is_revoked_ends_a_link_that_is_up(linked: LinkedPair) -> None:
    linked.start().wait_up()
    assert linked.site
    serial = Identity.load(linked.site.folder / "plant-press").own.serial
    linked.link["hub"] += f'revoked = ["{serial}"]\n'
    linked.reload("hub")
    wait_until(lambda: "settings read again" in linked.hub.said, "it is read")
    reload = linked.hub.said.partition("settings read again")[0]
    assert "is revoked by the settings" in reload, "the link ends with it, and not some time after it"
    says(linked, "press", "is revoked by the settings")
    wait_until(lambda: not linked.peers("hub"), "no link")
    wait_until(lambda: linked.hub.info()["links"]["refused"].get("revoked", 0) > 2, "it is tried again")
    assert set(linked.hub.info()["links"]["refused"]) == {"revoked"}, "each try is counted once, and as what it is"


# Proves G231.
def test_sighup_with_a_file_that_was_emptied_leaves_the_link_as_it_was(linked: LinkedPair) -> None:
    linked.start().wait_up()
    file = linked.settings("hub")
    file.write_text("")
    linked.hub.node.send_signal(signal.SIGHUP)
    wait_until(lambda: "the settings stay as they are" in linked.hub.said, "SIGHUP")
    assert f"{file}: it is empty; put back what it had; if this is meant" in linked.hub.said
    assert linked.is_up("hub")
    assert linked.hub.info()["keys"]["name"] == "rtmw://plant/hub"
    file.write_text("[link]\ninsecure = true\n")
    linked.hub.node.send_signal(signal.SIGHUP)
    wait_until(lambda: "begins anew" in linked.hub.said, "what is meant is taken in")


def test_key_files_that_others_can_read_are_refused_and_no_key_is_in_a_log(linked: LinkedPair) -> None:
    assert linked.site
    key = linked.site.folder / "plant-hub" / "node.pem"
    key.chmod(0o644)
    linked.hub.launch("--config", str(linked.settings("hub")))
    assert linked.hub.node.wait(60) != 0
    assert "chmod" in linked.hub.said
    key.chmod(0o600)
    linked.start().wait_up()
    secret = re.findall(r"-----BEGIN PRIVATE KEY-----\n(.+)\n", key.read_text())
    assert secret
    for host in linked.hosts.values():
        assert secret[0] not in host.said


def knock(port: int, what: bytes = b"") -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=30)
    if what:
        one.sendall(what)
    return one


def test_a_good_peer_gets_in_while_many_stand_in_the_door(linked: LinkedPair) -> None:
    linked.start("hub")
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(knock(linked.port, TLS_RECORD if number % 2 else b""))
        linked.start("press")
        linked.wait_up()
    wait_until(lambda: bool(linked.hub.info()["links"]["refused"]), "they are counted")


def test_connections_that_are_reset_before_they_are_accepted_keep_nobody_out(linked: LinkedPair) -> None:
    linked.start("hub")
    halt(linked.hub)
    for _ in range(20):
        with knock(linked.port) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
    go_on(linked.hub)
    linked.start("press")
    linked.wait_up()


@pytest.mark.parametrize("what", [b"GET / HTTP/1.1\r\n\r\n", bytes(1000), TLS_RECORD + bytes(1000)])
def test_garbage_costs_nothing_but_its_own_connection(linked: LinkedPair, what: bytes) -> None:
    linked.start("hub")
    with knock(linked.port, what):
        wait_until(lambda: sum(linked.hub.info()["links"]["refused"].values()) == 1, "it is counted")
    (one,) = linked.hub.info()["links"]["turned_away"]
    assert (one["address"], one["count"], one["ago_s"] >= 0) == ("127.0.0.1", 1, True)
    assert {one["cause"]: 1} == linked.hub.info()["links"]["refused"]
    assert one["why"] in linked.hub.said
    linked.start("press")
    linked.wait_up()
    wait_until(lambda: not linked.hub.info()["links"]["turned_away"], "a link came from there")


def shake(port: int, context: ssl.SSLContext) -> None:
    """Raises when the other end refuses, which a client of TLS 1.3 hears by its first read."""
    with knock(port) as plain, context.wrap_socket(plain) as secure:
        if not secure.recv(1):
            raise ConnectionResetError


def test_tls_1_2_and_a_client_without_a_certificate_get_no_link(linked: LinkedPair) -> None:
    linked.start("hub")
    for old in (True, False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if old:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shake(linked.port, context)
    says(linked, "hub", "the peer offers only TLS before 1.3")
    says(linked, "hub", "the peer has shown no certificate")


def test_settings_without_keys_stay_on_loopback(tmp_path: Path) -> None:
    linked = LinkedPair(tmp_path)
    path = tmp_path / "far.toml"
    path.write_text('[link]\nlisten = "0.0.0.0:7447"\n')
    linked.hub.launch("--config", str(path))
    assert linked.hub.node.wait(60) != 0
    assert "far.toml, line 2: listen: 0.0.0.0:7447 is not on loopback" in linked.hub.said
    assert "insecure = true" in linked.hub.said
    linked.end()
