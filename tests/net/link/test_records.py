"""Records behind the handshake, which links open and seal themselves, with a peer that makes them by other code."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw.net.link.library import Context, TlsError
from tests.net.link.ends import wait_until
from tests.net.link.records import ALERT, DATA, HANDSHAKE, Peer
from tests.net.security.site import Site

SAY = 1
REQUESTED, NOT_REQUESTED = b"\x18\0\0\1\1", b"\x18\0\0\1\0"
"""KeyUpdate (RFC 8446, section 4.6.3)."""
LONGEST = 16384


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    site = Site(tmp_path)
    here, there = site.node("rtmw://plant/hub"), site.node("rtmw://plant/press")
    one = Peer(Context(*here.material(), True), there.client_context(), tmp_path / "secrets")
    yield one
    one.close()


def say(words: bytes) -> bytes:
    return struct.pack("<HBBI", 8 + len(words), SAY, 0, 0) + words


def heard(peer: Peer, count: int = 1) -> list[bytes] | None:
    """The next that the connection hears. None: the peer has closed it."""
    found: list[bytes] = []
    closed = False

    def hears() -> bool:
        nonlocal closed
        some = peer.connection.heard()
        closed = some is None
        found.extend(some or [])
        return closed or len(found) >= count

    wait_until(hears)
    return None if closed else found


def fails(peer: Peer) -> str:
    """The reason that the connection tells for its end."""
    with pytest.raises(TlsError) as error:
        heard(peer)
    return str(error.value.args[0])


def alert_of(peer: Peer) -> int:
    """What the peer is told when the connection ends."""
    peer.connection.close()
    content, kind = peer.receive()
    assert (kind, content[0]) == (ALERT, 2)
    return content[1]


def test_words_cross_in_both_directions(peer: Peer) -> None:
    for words in (b"a", bytes(5000), b"b" * 15000):
        peer.send(say(words))
        assert heard(peer) == [words]
        peer.connection.say(words)
        assert peer.receive() == (say(words), DATA)


@pytest.mark.parametrize("ends", [[1], [8], [3, 11], [20, 20, 21]], ids=str)
def test_a_record_may_end_anywhere_and_have_no_bytes(peer: Peer, ends: list[int]) -> None:
    words = say(bytes(range(40)))
    for begin, end in zip([0, *ends], [*ends, len(words)], strict=True):
        peer.send(words[begin:end])
    assert heard(peer) == [bytes(range(40))]


@pytest.mark.parametrize("padding", [1, 300, LONGEST - 8 - len(b"words")])
def test_padding_is_taken_off(peer: Peer, padding: int) -> None:
    peer.send(say(b"words"), padding=padding)
    assert heard(peer) == [b"words"]


# Proves G243.
def test_the_peer_may_change_its_keys_and_ask_for_others_here(peer: Peer) -> None:
    peer.send(say(b"before"))
    for number in range(3):
        peer.send(NOT_REQUESTED, HANDSHAKE)
        peer.out.update()
        peer.send(say(b"behind %d" % number))
    assert heard(peer, 4) == [b"before", b"behind 0", b"behind 1", b"behind 2"]
    peer.send(REQUESTED, HANDSHAKE)
    peer.out.update()
    peer.send(say(b"asked"))
    assert heard(peer) == [b"asked"]
    peer.connection.say(b"new keys")
    assert peer.receive() == (NOT_REQUESTED, HANDSHAKE)
    peer.back.update()
    assert peer.receive() == (say(b"new keys"), DATA)
    peer.connection.say(b"once")
    assert peer.receive() == (say(b"once"), DATA)


def test_a_peer_that_closes_is_no_failure(peer: Peer) -> None:
    peer.send(b"\1\x5a", ALERT)  # user_canceled
    peer.send(b"\1\0", ALERT)
    assert heard(peer) is None


@pytest.mark.parametrize("is_answer", [False, True])
def test_who_closes_says_so(peer: Peer, is_answer: bool) -> None:
    if is_answer:
        peer.send(b"\1\0", ALERT)
        assert heard(peer) is None
    peer.connection.close()
    assert peer.receive() == (b"\1\0", ALERT)
    assert peer.socket.recv(1) == b""


def test_an_alert_is_not_answered(peer: Peer) -> None:
    peer.send(b"\2\x2d", ALERT)
    fails(peer)
    peer.connection.close()
    assert peer.socket.recv(1) == b""


def test_an_alert_is_told_by_its_name(peer: Peer) -> None:
    peer.send(say(b"before"))
    peer.send(b"\2\x2d", ALERT)
    assert heard(peer) == [b"before"]
    assert fails(peer).endswith("ALERT_CERTIFICATE_EXPIRED")


def test_a_peer_that_is_gone_without_a_farewell_is_told(peer: Peer) -> None:
    peer.socket.close()
    assert fails(peer) == "UNEXPECTED_EOF_WHILE_READING"


@pytest.mark.parametrize("at", [5, 20, -17, -1])
# Proves G243.
def test_a_bit_that_has_turned_ends_the_connection(peer: Peer, at: int) -> None:
    record = bytearray(peer.out.seal(say(b"words") + bytes([DATA])))
    record[at] ^= 1
    peer.socket.sendall(record)
    assert fails(peer) == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    assert alert_of(peer) == 20


def test_what_came_whole_before_is_heard_and_then_the_connection_fails_for_good(peer: Peer) -> None:
    record = peer.out.seal(say(b"words") + bytes([DATA]))
    peer.socket.sendall(record + record)
    assert heard(peer) == [b"words"]
    for _ in range(2):
        assert fails(peer) == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"


@pytest.mark.parametrize("lost", [0, 1])
# Proves G243.
def test_records_come_in_their_order_and_all_of_them(peer: Peer, lost: int) -> None:
    records = [peer.out.seal(say(b"%d" % number) + bytes([DATA])) for number in range(3)]
    del records[lost]
    peer.socket.sendall(b"".join(records))
    if lost:
        assert heard(peer) == [b"0"]
    assert fails(peer) == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"


@pytest.mark.parametrize(
    ("header", "reason", "alert"),
    [
        (b"\x17\3\3\x40\x12", "ENCRYPTED_LENGTH_TOO_LONG", 22),
        (b"\x17\3\3\xff\xff", "ENCRYPTED_LENGTH_TOO_LONG", 22),
        (b"\x17\3\3\0\x10", "LENGTH_TOO_SHORT", 20),
        (b"\x17\3\1\1\0", "BAD_RECORD_TYPE", 10),
        (b"\x16\3\3\1\0", "BAD_RECORD_TYPE", 10),
        (b"\x15\3\3\0\2", "BAD_RECORD_TYPE", 10),
        (b"\x14\3\3\0\1", "BAD_RECORD_TYPE", 10),
    ],
    ids=["longer", "longest", "too short", "version", "handshake", "alert", "change of cipher"],
)
def test_a_record_that_tls_does_not_have_here_ends_the_connection(
    peer: Peer, header: bytes, reason: str, alert: int
) -> None:
    peer.socket.sendall(header)
    assert fails(peer) == reason
    assert alert_of(peer) == alert


@pytest.mark.parametrize(
    ("content", "kind", "padding", "alert"),
    [
        (b"\x04\0\0\1\0", HANDSHAKE, 0, 10),
        (b"\x0d\0\0\3\0\0\0", HANDSHAKE, 0, 10),
        (b"\x18\0\0\1\2", HANDSHAKE, 0, 47),
        (b"\x18\0\0\2\0\0", HANDSHAKE, 0, 50),
        (b"\x18\0\0\0\0", HANDSHAKE, 0, 50),
        (REQUESTED + b"\0", HANDSHAKE, 0, 10),
        (REQUESTED[:4], HANDSHAKE, 0, 10),
        (b"", HANDSHAKE, 0, 10),
        (b"words", 24, 0, 10),
        (b"", 0, 100, 10),
    ],
    ids=[
        "another message",
        "a request for a certificate",
        "a request of 2",
        "longer",
        "shorter",
        "with more behind it",
        "in pieces",
        "nothing",
        "another type",
        "padding alone",
    ],
)
def test_a_content_that_no_peer_has_to_send_ends_the_connection(
    peer: Peer, content: bytes, kind: int, padding: int, alert: int
) -> None:
    peer.send(content, kind, padding)
    fails(peer)
    assert alert_of(peer) == alert


@pytest.mark.parametrize("content", [b"", b"\2", b"\2\x2d\0"])
def test_an_alert_has_two_bytes(peer: Peer, content: bytes) -> None:
    peer.send(content, ALERT)
    assert fails(peer) == "BAD_ALERT"


@pytest.mark.parametrize(("content", "kind"), [(b"", DATA), (b"\1\x5a", ALERT), (NOT_REQUESTED, HANDSHAKE)])
def test_records_without_bytes_do_not_keep_a_thread_at_work(peer: Peer, content: bytes, kind: int) -> None:
    def send(count: int) -> None:
        for _ in range(count):
            peer.send(content, kind)
            if kind == HANDSHAKE:
                peer.out.update()

    send(32)
    peer.send(say(b"words"))
    assert heard(peer) == [b"words"]
    send(33)
    assert fails(peer) == "RECORD_TOO_SMALL"


CHOSEN = """
openssl_conf = all
[all]
ssl_conf = sections
[sections]
system_default = chosen
[chosen]
Ciphersuites = {suite}
Options = KTLS
"""
MEETING = """
import ssl, sys
from pathlib import Path
from threading import Thread
from rtmw.net.link.library import Connection, Context
from rtmw.net.security.identity import Identity
from tests.net.link.ends import tcp_pair, wait_until
from tests.net.link.test_records import say

pem, authorities = Identity.load(Path(sys.argv[1])).material()
client = Identity.load(Path(sys.argv[2])).client_context()
one, other = tcp_pair()
connection = Connection(other.fileno(), Context(pem, authorities, True))
end = client.wrap_socket(one, do_handshake_on_connect=False)
thread = Thread(target=end.do_handshake)
thread.start()
wait_until(lambda: connection.handshake() == "done")
thread.join()
for words in (b"a", b"b" * 15000):
    end.sendall(say(words))
    wait_until(lambda: connection.heard() == [words])
    connection.say(words)
    assert end.recv(1 << 15) == say(words)
print(end.cipher()[0], connection.cipher)
"""


@pytest.mark.parametrize("suite", ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"])
# Proves G243.
def test_each_cipher_is_spoken_as_openssl_speaks_it(tmp_path: Path, suite: str) -> None:
    site = Site(tmp_path)
    folders = [str(site.keys(f"rtmw://plant/{name}")) for name in ("hub", "press")]
    (tmp_path / "openssl.cnf").write_text(CHOSEN.format(suite=suite))
    environment = dict(os.environ) | {"OPENSSL_CONF": str(tmp_path / "openssl.cnf")}
    command = [sys.executable, "-c", MEETING, *folders]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3]
    )
    assert done.stdout == f"{suite} {suite}\n", done.stderr
