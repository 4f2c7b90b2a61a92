"""`rtmw foxglove` and a client that is not ours: @foxglove/ws-protocol, and Foxglove's decoders of IDL and ROS 2."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("foxglove")

import rtmw
from rtmw import observe
from rtmw.errors import NotInstalled
from rtmw.observe.foxglove import FoxgloveOptions, FoxgloveServer
from rtmw.publisher import OwnPublisher
from tests.bus import eventually
from tests.control.certificates import write_certificates
from tests.recording.readers.made import plain
from tests.test_topics import TOPICS
from tests.whole import IS_WHOLE, sample

MESSAGES = 10_000 if IS_WHOLE else 60
"""Of each type."""
PATIENCE = 15
TYPES = sorted({topic.type for topic in TOPICS}, key=lambda type: type.__idl_typename__)


class Client:
    """watch.js, and what it says."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = ["node", str(folder / "watch.js"), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.passed: list[dict[str, Any]] = []
        """What came while something else was waited for."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put({"op": "end"})

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def next(self, op: str, **wanted: Any) -> dict[str, Any]:
        """The next thing of this kind with these values."""
        while True:
            said = self._said.get(timeout=PATIENCE)
            if said["op"] == op and wanted.items() <= said.items():
                return said
            assert said["op"] not in ("error", "end"), said
            self.passed.append(said)

    def show(self, topic: str) -> dict[str, Any]:
        """Its channel."""
        self.tell(f"show {topic}")
        came = [said for said in self.passed if said["op"] == "advertise" and said["topic"] == topic]
        return came[-1] if came else self.next("advertise", topic=topic)


@dataclass
class Served:
    server: FoxgloveServer
    told: list[str]
    client: Callable[..., Client]


@pytest.fixture
def serve(domain_id: int, node_folder: Path) -> Iterator[Callable[..., Any]]:
    """Serves the domain of the test; clients are ended with it."""
    clients: list[Client] = []

    @contextmanager
    def serving(*patterns: str, **options: Any) -> Iterator[Served]:
        told: list[str] = []
        end = threading.Event()
        how: Any = {"place": ("127.0.0.1", 0)} | options
        with FoxgloveServer(FoxgloveOptions(domain_id, patterns, **how), told.append) as server:
            thread = threading.Thread(target=server.run, args=(end.is_set,))
            thread.start()

            def client(*arguments: str) -> Client:
                clients.append(Client(node_folder, server.url, *arguments))
                return clients[-1]

            try:
                yield Served(server, told, client)
            finally:
                end.set()
                thread.join(PATIENCE)
                assert not thread.is_alive()

    yield serving
    for client in clients:
        client.process.kill()
        client.process.communicate()


def some_value(hint: str, chance: random.Random) -> Any:
    """`hint`: the type of a member as cyclonedds shows it."""
    if "sequence" in hint:
        return [chance.randrange(6400) / 64 for _ in range(chance.randrange(9))]
    if number := re.search(r"(u?)int(\d+)", hint):
        bits = int(number[2])
        return chance.randrange(1 << bits) - (0 if number[1] else 1 << bits - 1)
    if "float" in hint:
        return chance.randrange(-(1 << 20), 1 << 20) / 64
    if "bool" in hint:
        return chance.random() < 0.5
    assert "str" in hint, hint
    return "".join(chance.choices("aZ0 ü漢😀<>&\"'\u202e\n", k=chance.randrange(12)))


def value_of(cls: Any, chance: random.Random) -> Any:
    """A message with random members."""
    members = {
        field.name: chance.choice([*type(field.default)])
        if isinstance(field.default, Enum)
        else some_value(str(field.type), chance)
        for field in dataclasses.fields(cls)
    }
    return cls(**members)


def subscribers(domain: rtmw.Domain, topic: str) -> int:
    views = {view.name: view for view in observe.topics(domain)}
    return len(views[topic].subscribers) if topic in views else 0


@pytest.mark.parametrize("ros2", [False, True], ids=["idl", "ros2"])
@pytest.mark.parametrize("cls", sample(TYPES, 4), ids=lambda cls: cls.__name__)
def test_each_message_of_each_type_has_its_value_and_source_time(
    serve: Callable[..., Any], domain: rtmw.Domain, cls: Any, ros2: bool
) -> None:
    chance = random.Random(f"{cls.__idl_typename__} 46")
    with (
        serve(ros2=ros2) as served,
        rtmw.Publisher("t", cls, domain=domain) as publisher,
        rtmw.Subscriber("t", cls, domain=domain, depth=200) as beside,
    ):
        client = served.client()
        channel = client.show("t")
        assert (channel["encoding"], channel["schemaEncoding"]) == ("cdr", "ros2msg" if ros2 else "omgidl")
        eventually(lambda: subscribers(domain, "t") == 2)
        for first in range(0, MESSAGES, 100):
            values = [value_of(cls, chance) for _ in range(first, min(first + 100, MESSAGES))]
            for value in values:
                publisher.publish(value)
            times = [taken.source_time_ns for taken in beside.take_many(200)]
            for value, time in zip(values, times, strict=True):
                said = client.next("message", topic="t")
                assert said["value"] == plain(value)
                assert int(said["time"]) == time
    assert served.server.missed == 0


def test_json_and_text_of_any_characters_and_names_are_shown_as_they_are(
    serve: Callable[..., Any], domain: rtmw.Domain
) -> None:
    evil = "<script>alert('x')</script> \" & \u202e \\ \u0000"
    name = "<script>\"'&/\u202e"
    name += "n" * (191 - len(name.encode()))
    with (
        serve() as served,
        rtmw.Publisher(name, dict, domain=domain, history=1) as objects,
        rtmw.Publisher("text", str, domain=domain, history=1) as texts,
    ):
        objects.publish({"x": [evil, 1.5, None], evil: {}})
        texts.publish(evil.replace("\0", ""))
        client = served.client()
        channel = client.show(name)
        assert (channel["encoding"], channel["schemaEncoding"]) == ("json", "jsonschema")
        assert client.next("message")["value"] == {"x": [evil, 1.5, None], evil: {}}
        client.tell("show text")
        assert client.next("message", topic="text")["value"] == {"data": evil.replace("\0", "")}


@dataclass
class Inner:
    name: str


@dataclass
class Optional:
    first: rtmw.int64
    number: rtmw.int32 | None
    inner: Inner | None
    last: str | None


def test_optional_members_have_a_value_or_are_absent(serve: Callable[..., Any], domain: rtmw.Domain) -> None:
    values = Optional(1, 2, Inner("x"), "y"), Optional(3, None, None, None), Optional(4, None, Inner("z"), None)
    with serve() as served, rtmw.Publisher("t", Optional, domain=domain, history=3) as publisher:
        for value in values:
            publisher.publish(value)
        client = served.client()
        client.show("t")
        for value in values:
            said = client.next("message", topic="t")["value"]
            assert said.pop("first") == str(value.first)
            shown = {name: None if member == {"absent": {}} else member["value"] for name, member in said.items()}
            assert shown == {"number": value.number, "inner": value.inner and {"name": value.inner.name}} | {
                "last": value.last
            }


# Proves G112.
def test_a_topic_is_subscribed_only_while_a_client_shows_it(serve: Callable[..., Any], domain: rtmw.Domain) -> None:
    places = len(domain.region.participants())
    with serve() as served, rtmw.Publisher("t", str, domain=domain), rtmw.Publisher("u", str, domain=domain):
        one, two = served.client(), served.client()
        one.next("advertise", topic="t")
        assert subscribers(domain, "t") == 0
        one.tell("show t")
        eventually(lambda: subscribers(domain, "t") == 1)
        two.tell("show t")
        view = next(view for view in observe.topics(domain) if view.name == "t").subscribers[0]
        assert view.reliability is rtmw.Reliability.TIMELY
        assert subscribers(domain, "u") == 0
        one.tell("hide t")
        one.next("hidden")
        assert subscribers(domain, "t") == 1
        two.process.kill()
        eventually(lambda: subscribers(domain, "t") == 0)
        assert len(domain.region.participants()) == places


def test_each_client_gets_what_history_keeps_once_whenever_it_comes(
    serve: Callable[..., Any], domain: rtmw.Domain
) -> None:
    with serve() as served, rtmw.Publisher("map", str, domain=domain, history=3) as publisher:
        for number in range(10):
            publisher.publish(f"map {number}")
        clients = [served.client() for _ in range(3)]
        for client in clients:
            client.show("map")
            kept = list[str]()
            while not kept or kept[-1] != "map 9":
                kept.append(client.next("message")["value"]["data"])
            assert kept == [f"map {number}" for number in range(10 - len(kept), 10)]
            assert len(kept) >= 3
        publisher.publish("map A")
        for client in clients:
            assert client.next("message")["value"] == {"data": "map A"}


def test_topics_that_come_are_shown_and_a_new_type_is_a_new_channel(
    serve: Callable[..., Any], domain: rtmw.Domain
) -> None:
    with serve("pump/*") as served:
        client = served.client()
        with rtmw.Publisher("other", str, domain=domain):
            with rtmw.Publisher("pump/1", str, domain=domain) as publisher:
                first = client.show("pump/1")
                eventually(lambda: subscribers(domain, "pump/1") == 1)
                publisher.publish("one")
                assert client.next("message")["value"] == {"data": "one"}
            with rtmw.Publisher("pump/1", dict, domain=domain) as publisher:
                client.next("unadvertise", topic="pump/1")
                second = client.next("advertise", topic="pump/1")
                assert second["id"] != first["id"]
                publisher.wait_for_subscribers(timeout=PATIENCE)
                publisher.publish({"n": 2})
                assert client.next("message")["value"] == {"n": 2}
        assert "other" not in {said.get("topic") for said in client.passed}


@pytest.mark.parametrize(("patterns", "shown"), [((), ["t"]), (("*",), ["t"]), (("t*", "rtmw/own"), ["rtmw/own", "t"])])
def test_topics_of_rtmw_itself_are_shown_where_they_are_named(
    serve: Callable[..., Any], domain: rtmw.Domain, patterns: tuple[str, ...], shown: list[str]
) -> None:
    with (
        OwnPublisher("rtmw/own", TYPES[0], domain=domain),
        rtmw.Publisher("t", str, domain=domain),
        serve(*patterns) as served,
    ):
        client = served.client()
        assert sorted(client.next("advertise")["topic"] for _ in shown) == shown


def test_what_foxglove_cannot_read_is_told_once_and_shown_as_a_status(
    serve: Callable[..., Any], domain: rtmw.Domain
) -> None:
    with (
        serve() as served,
        rtmw.Publisher("raw", domain=domain),
        rtmw.Publisher("array", np.dtype("<f8"), domain=domain),
        rtmw.Publisher("text", str, domain=domain),
    ):
        client = served.client()
        said = client.next("status")
        while not ("raw" in said["message"] and "array" in said["message"]):
            said = client.next("status")
        assert "bytes and numpy arrays have no schema that Foxglove reads" in said["message"]
        client.show("text")
        rtmw.Publisher("later", str, domain=domain).close()
        told = re.findall(r"\b(?:raw|array)\b", " ".join(served.told))
        assert sorted(told) == ["array", "raw"]


# Proves G112.
def test_clients_that_read_nothing_lose_messages_and_nobody_else_does(
    serve: Callable[..., Any], domain: rtmw.Domain
) -> None:
    with serve(backlog=64) as served, rtmw.Publisher("t", str, domain=domain) as publisher:
        port = int(served.server.url.rpartition(":")[2])
        with silent_clients(port, 10, subscribing=True), silent_clients(port, 9, subscribing=False):
            client = served.client()
            client.show("t")
            eventually(lambda: subscribers(domain, "t") == 1)
            for number in range(300):
                assert publisher.publish(f"{number} " + "x" * 20_000)
                assert client.next("message")["value"]["data"].startswith(f"{number} ")
            assert publisher.stats().timed_out == publisher.stats().exhausted == 0


@contextmanager
def silent_clients(port: int, count: int, subscribing: bool) -> Iterator[None]:
    """Connections that say so much as a client has to, and then read nothing."""
    key = base64.b64encode(os.urandom(16)).decode()
    hello = (
        f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: foxglove.sdk.v1\r\n\r\n"
    )
    wish = json.dumps({"op": "subscribe", "subscriptions": [{"id": 0, "channelId": 1}]}).encode()
    frame = bytes([0x81, 0x80 | len(wish)]) + bytes(4) + wish
    made = list[socket.socket]()
    try:
        for _ in range(count):
            made.append(socket.create_connection(("127.0.0.1", port)))
            made[-1].sendall(hello.encode())
            assert made[-1].recv(12) == b"HTTP/1.1 101"
            if subscribing:
                made[-1].sendall(frame)
        yield
    finally:
        for one in made:
            one.close()


# Proves G112.
def test_a_domain_that_is_not_there_yet_or_is_made_again_while_it_is_shown_is_shown(
    serve: Callable[..., Any], domain_id: int
) -> None:
    with serve() as served:
        client = served.client()
        client.next("info")
        for round in range(2):
            with (
                rtmw.Domain(domain_id) as domain,
                rtmw.Publisher("t", str, domain=domain, history=1) as publisher,
            ):
                publisher.publish(f"round {round}")
                client.tell("show t")
                assert client.next("message")["value"] == {"data": f"round {round}"}
                rtmw.Domain.unlink(domain_id)
                client.next("unadvertise", topic="t")
        assert served.told == []


def test_an_older_client_is_refused(serve: Callable[..., Any]) -> None:
    with serve() as served:
        assert served.client("foxglove.websocket.v1").next("refused")["status"] == 400


def test_with_a_certificate_it_speaks_tls_at_any_address(serve: Callable[..., Any], tmp_path: Path) -> None:
    write_certificates(tmp_path)
    with serve(place=("127.0.0.2", 0), tls=(tmp_path / "node.pem", tmp_path / "node.key")) as served:
        assert served.server.url.startswith("wss://127.0.0.2:")
        assert served.client().next("info")["info"]["name"].startswith("rtmw domain ")


# ---- the command ----


def start(domain_id: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rtmw", "foxglove", "--domain", str(domain_id), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_is_and_ends_in_order(domain_id: int, number: signal.Signals) -> None:
    process = start(domain_id, "--listen", "127.0.0.1:0")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"Foxglove shows domain {domain_id} at ws://127.0.0.1:")
    process.send_signal(number)
    _, error = process.communicate(timeout=PATIENCE)
    assert (process.returncode, error) == (0, "")


def test_what_is_not_possible_is_said_in_one_sentence(domain_id: int, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("none")
    files = ["--tls-cert", str(tmp_path / "none.pem"), "--tls-key", str(tmp_path / "none.pem")]
    write_certificates(tmp_path)
    wrong = ["--tls-cert", str(tmp_path / "node.pem"), "--tls-key", str(tmp_path / "none.pem")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, words in (
            (["--listen", f"127.0.0.1:{port}"], f"Foxglove cannot be served at 127.0.0.1:{port}: .*in use"),
            (["--listen", "192.0.2.1:0", "--allow-remote"], "at 192.0.2.1:0: .*Cannot assign"),
            (
                ["--listen", "0.0.0.0:0"],
                "0.0.0.0 is reached from other hosts, and whoever reaches it reads all topics: .*--allow-remote",
            ),
            (["--listen", "127.0.0.1:0", *files], "none.pem has no CERTIFICATE in PEM"),
            (["--listen", "127.0.0.1:0", *wrong], "none.pem has no PRIVATE KEY in PEM.*; openssl pkcs8 -topk8"),
            (["--listen", "127.0.0.1:0", *files[:2]], "--tls-cert and --tls-key belong together"),
            (["--listen", "127.0.0.1:0", *wrong[:2], "--tls-key", "/none"], "/none cannot be read: No such file"),
            (["a/#/b"], "'a/#/b' is no pattern"),
        ):
            process = start(domain_id, *arguments)
            said, error = process.communicate(timeout=PATIENCE)
            assert (process.returncode, said) == (1, ""), (arguments, error)
            assert len(error.splitlines()) == 1, error
            assert re.search(words, error), error


def test_without_the_library_the_command_that_installs_it_is_named(
    domain_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "foxglove", None)
    with pytest.raises(NotInstalled, match=r"pip install 'rtmw\[foxglove\]'"):
        FoxgloveServer(FoxgloveOptions(domain_id), print)


def test_another_address_than_loopback_is_served_where_it_is_meant(domain_id: int) -> None:
    process = start(domain_id, "--listen", "0.0.0.0:0", "--allow-remote")
    assert process.stdout is not None
    assert " at ws://0.0.0.0:" in process.stdout.readline()
    process.terminate()
    assert process.communicate(timeout=PATIENCE) == ("", "")
