"""`rtmw dashboard` as a server: who is answered, and what it says. test_page.py looks at the page in a browser."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

import rtmw
from rtmw import Reliability, observe
from rtmw.cli.page import Site, State
from rtmw.clock import CLOCK
from rtmw.net.http_server import HttpServer
from rtmw.observe.views import NODE_TOPIC
from rtmw.publisher import OwnPublisher
from tests.child import Spawn
from tests.cli.command import Run
from tests.cli.test_node_doctor import STATUS
from tests.net.hosts import wait_until
from tests.net.link.nodes import LinkedPair

SERVER = """
    import sys
    from rtmw.cli import main
    sys.exit(main(["dashboard", "--domain", "{}", "--listen", "127.0.0.1:0"]))
"""
HOSTILE = ["<script>alert(1)</script>", "a\"b'c&d;--", "x" * 191, "\u202egnp.exe", "{{7+7}}"]


class Browser:
    """Asks as a browser does that has opened the URL: with the cookie that it was given."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        answer = self.ask(f"/?token={token}")
        assert answer.status == 303, answer.read()
        self.cookie = str(answer.getheader("Set-Cookie")).partition(";")[0]

    def ask(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()

    def document(self, path: str) -> Any:
        answer = self.ask(path, cookie=self.cookie)
        assert (answer.status, answer.getheader("Content-Type")) == (200, "application/json"), answer.read()
        return json.loads(answer.read())

    def state(self) -> Any:
        return self.document("/state.json")

    def whole(self) -> Any:
        return self.document("/state.json?whole=1")

    def topics(self) -> list[dict[str, Any]]:
        found = self.state()["top"]
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


@pytest.fixture
def site(domain_id: int) -> Site:
    return Site(domain_id)


@pytest.fixture
def browser(site: Site) -> Generator[Browser]:
    server = HttpServer("127.0.0.1", 0, site.answer, "the dashboard")
    yield Browser(server.port, site.token)
    server.close()


def test_the_command_says_where_it_is_and_ends_at_a_signal(spawn: Spawn, domain_id: int) -> None:
    child = spawn(SERVER.format(domain_id))
    url = urlsplit(child.line().rpartition(" ")[2])
    assert url.port is not None
    assert Browser(url.port, parse_qs(url.query)["token"][0]).state()["domain"] == domain_id
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait() == 0


def test_a_port_that_is_taken_is_one_sentence(run: Run, domain_id: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        status, out, err = run("dashboard", "--domain", str(domain_id), "--listen", place)
    assert (status, out) == (1, "")
    assert "the dashboard cannot be served" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("place", ["0.0.0.0:0", "[::]:0", "203.0.113.7:0"])
def test_another_address_than_loopback_has_to_be_meant(place: str, run: Run, domain_id: int) -> None:
    status, _, err = run("dashboard", "--domain", str(domain_id), "--listen", place)
    assert status == 1
    assert "--allow-remote" in err


# Proves G114.
def test_nobody_is_answered_without_the_token(browser: Browser) -> None:
    for path in ("/", "/state.json", "/value.json?topic=t", "/graph.svg", "/page.js", "/?token=", "/?token=wrong"):
        answer = browser.ask(path)
        assert answer.status == 403, path
        assert b"open the URL" in answer.read()
    assert browser.ask("/", cookie="rtmw-1=x; other").status == 403


def test_the_token_becomes_a_cookie_that_no_other_site_sends(browser: Browser, site: Site) -> None:
    answer = browser.ask(f"/?token={site.token}")
    assert answer.getheader("Location") == "/"
    assert {"HttpOnly", "SameSite=Strict"} <= set(str(answer.getheader("Set-Cookie")).split("; "))


# Proves G114.
def test_a_name_that_is_not_of_this_host_is_refused(browser: Browser) -> None:
    for host in ("evil.example", f"evil.example:{browser.port}", "", "[", "localhost.evil.example"):
        assert browser.ask("/", host=host, cookie=browser.cookie).status == 421, host
    for host in ("localhost", f"127.0.0.1:{browser.port}", "[::1]:1", socket.gethostname()):
        assert browser.ask("/", host=host, cookie=browser.cookie).status == 200, host


def test_it_only_shows(browser: Browser) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert browser.ask("/state.json", method, cookie=browser.cookie).status == 405
    answer = browser.ask("/page.js", "HEAD", cookie=browser.cookie)
    assert (answer.status, answer.read()) == (200, b"")
    assert answer.getheader("Content-Length") == str(len(browser.ask("/page.js", cookie=browser.cookie).read()))


def test_paths_that_leave_the_page_and_headers_without_end_get_no_file(browser: Browser) -> None:
    for path in ("/../pyproject.toml", "/page/../__init__.py", "//etc/passwd", "/%2e%2e/x", "/page.html"):
        assert browser.ask(path, cookie=browser.cookie).status == 404, path
    with socket.create_connection(("127.0.0.1", browser.port), timeout=20) as client:
        try:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + bytes(1 << 20))
            assert client.recv(100).startswith(b"HTTP/1.0 431")
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was cut off before all was sent
    assert browser.state()


def test_every_answer_forbids_what_comes_from_elsewhere(browser: Browser) -> None:
    for path in ("/", "/page.js", "/page.css", "/state.json", "/none"):
        answer = browser.ask(path, cookie=browser.cookie)
        assert str(answer.getheader("Content-Security-Policy")).startswith("default-src 'self'"), path
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Cache-Control") == "no-store"


# Proves G114.
def test_twenty_clients_of_which_half_say_nothing_do_not_keep_it_busy(browser: Browser) -> None:
    silent = [socket.create_connection(("127.0.0.1", browser.port)) for _ in range(10)]
    try:
        for _ in range(10):
            assert browser.state()
    finally:
        for client in silent:
            client.close()


def test_the_state_has_what_the_commands_say_for_programs_whole_or_what_the_page_shows_of_it(
    browser: Browser, domain: rtmw.Domain, domain_id: int, run: Run
) -> None:
    with rtmw.Publisher("t", domain=domain) as publisher, rtmw.Subscriber("t", domain=domain):
        publisher.publish(b"x")
        state, (shown,) = browser.whole(), browser.topics()
        edges, examined, (row,) = (
            json.loads(run(*command, "--domain", str(domain_id), "--json")[1])
            for command in (("graph",), ("doctor",), ("top", "--once"))
        )
        short = browser.state()
    assert state["graph"] == edges
    assert state["doctor"].keys() == examined.keys()
    assert state["doctor"]["books"] == examined["books"]
    assert [one.keys() for one in state["top"]] == [row.keys()]
    assert (shown["topic"], shown["publishers"], shown["subscribers"], shown["queued"]) == ("t", 1, 1, 1)
    assert [state[name] for name in ("node", "transfers", "absent")] == [None, None, ""]
    assert short.keys() == state.keys() - {"doctor"}
    (program,) = short["graph"]["programs"]
    assert (program["pid"], program["name"]) == (os.getpid(), edges[0]["process"])
    assert sorted(short["graph"]["edges"]) == [[0, "t", False, True], [0, "t", True, True]]


# Proves G114.
def test_the_state_of_a_thousand_topics_is_below_300_kb(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="64M") as domain, ExitStack() as stack:
        for number in range(1000):
            name = f"plant/hall-{number % 7}/machine-{number}/speed"
            publisher = stack.enter_context(rtmw.Publisher(name, dict, domain=domain))
            subscriber = stack.enter_context(rtmw.Subscriber(name, dict, domain=domain))
            publisher.publish({"rpm": number})
            assert subscriber.take()
        told = State(domain_id).told()
    assert len(json.loads(told)["top"]["rows"]) == 1000
    assert len(told) < 300_000


def kinds(state: Any) -> dict[str, str]:
    return {problem["kind"]: problem["why"] for problem in state["problems"]}


def test_a_pair_that_does_not_meet_is_a_problem_with_its_reason(browser: Browser, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("t", domain=domain),
        rtmw.Subscriber("t", domain=domain, reliability=Reliability.RELIABLE),
    ):
        assert "RELIABLE is wanted" in kinds(browser.state())["unmatched"]


def test_publishers_that_are_gone_are_a_problem_while_somebody_listens(browser: Browser, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("t", domain=domain):
        assert kinds(browser.state()) == {}
        with rtmw.Publisher("t", domain=domain) as publisher:
            publisher.publish(b"x")
        site_is_asked_again(browser)
        assert "its publishers are gone" in kinds(browser.state())["silent"]


def test_topics_of_rtmw_itself_and_commands_that_look_on_wait_for_nobody(
    browser: Browser, domain: rtmw.Domain, domain_id: int
) -> None:
    command = (sys.executable, "-um", "rtmw", "topic", "echo", "a/t", "--wait", "--domain", str(domain_id))
    echo = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert echo.stdout is not None
    with rtmw.Subscriber("rtmw/own", domain=domain):
        with OwnPublisher("rtmw/own", domain=domain) as own, rtmw.Publisher("a/t", domain=domain) as publisher:
            own.publish(b"x")
            publisher.publish(b"x")
            assert echo.stdout.readline()
        state = browser.state()
        assert kinds(state) == {}
        assert any("rtmw topic echo a/t --wait" in program["name"] for program in state["graph"]["programs"])
    echo.send_signal(signal.SIGINT)
    echo.communicate(timeout=20)


def test_a_service_without_its_server_is_told_by_its_name_once(browser: Browser, domain: rtmw.Domain) -> None:
    with rtmw.Client("add", request=dict, reply=dict, domain=domain) as client:
        with rtmw.Service("add", lambda asked: asked, request=dict, reply=dict, domain=domain):
            assert client.call({"a": 1}, timeout=10) == {"a": 1}
        state = browser.state()
    (program,) = state["graph"]["programs"]
    who = f"{observe.program(program['name'])} ({os.getpid()})"
    why = f"nobody serves add any more; {who} is still there"
    assert state["problems"] == [{"kind": "silent", "about": "add/reply/server", "why": why}]


def test_a_drop_is_told_for_a_while_and_not_for_a_moment_alone(browser: Browser, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("t", domain=domain, depth=1, reliability=Reliability.TIMELY) as publisher,
        rtmw.Subscriber("t", domain=domain, depth=1, reliability=Reliability.TIMELY) as subscriber,
    ):
        browser.state()
        for _ in range(10):
            publisher.publish(b"x")
        while subscriber.take():
            pass
        for _ in range(3):
            site_is_asked_again(browser)
            assert kinds(browser.state()) == {"drops": f"{subscriber.stats().missed} missed in the last minute"}


def test_what_the_doctor_of_a_node_finds_is_a_problem_and_its_remarks_are_none(
    browser: Browser, domain: rtmw.Domain
) -> None:
    told = STATUS | {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "host": "h", "domain": domain.id}
    told |= {
        "out": [],
        "in": [],
        "elsewhere": [],
        "participants": 0,
        "peers": [],
        "refused": {"odd name": "DDS takes no such name"},
    }
    with OwnPublisher(NODE_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        problems = browser.state()["problems"]
    assert problems == [{"kind": "node", "about": "odd name", "why": "refused; DDS takes no such name"}]


def test_a_node_that_says_less_is_shown_with_that_and_what_cannot_be_read_is_a_problem(
    browser: Browser, domain: rtmw.Domain
) -> None:
    told = STATUS | {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "host": "h", "domain": domain.id}
    with OwnPublisher(NODE_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        assert browser.state()["node"]["host"] == "h"
        node.publish(json.dumps({name: told[name] for name in told if name != "peers"}).encode())
        site_is_asked_again(browser)
        assert "node" not in kinds(browser.state())
        node.publish(json.dumps(told | {"peers": 7}).encode())
        site_is_asked_again(browser)
        assert kinds(browser.state())["node"].startswith("peers in the document of the node is 7; it has to be a list")


def test_a_table_that_is_nearly_full_is_a_problem(browser: Browser, domain: rtmw.Domain) -> None:
    with ExitStack() as stack:
        with suppress(rtmw.LimitReached):
            while True:
                stack.enter_context(rtmw.Publisher("a", domain=domain))
        assert kinds(browser.state()) == {"full": "100 % of what all may use; rtmw doctor says by whom"}


def test_a_deadline_that_was_missed_is_a_problem_of_its_topic(browser: Browser, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain, deadline=0.02) as subscriber:
        with pytest.raises(rtmw.DeadlineMissed):
            subscriber.receive(timeout=20)
        problems = browser.state()["problems"]
    assert problems == [{"kind": "deadline", "about": "t", "why": "1 deadline missed by its subscribers of now"}]


def test_links_have_the_last_day_of_their_certificates_and_one_that_is_down_is_a_problem(tmp_path: Path) -> None:
    linked = LinkedPair(tmp_path).with_keys()
    try:
        assert linked.site
        made = linked.site.keys("rtmw://plant/brief", now=CLOCK.wall() - 6000, days=8000 / 86400)
        linked.link["press"] = f'keys = "{made}"\n'
        linked.start().wait_up()
        hub, press = (State(linked.hosts[name].number) for name in ("hub", "press"))
        (peer,) = json.loads(hub.told())["node"]["links"]["peers"]
        assert (peer["peer"], peer["up"]) == ("rtmw://plant/brief", True)
        assert 0 < peer["expires"] - CLOCK.wall() <= 2000
        (keys,) = [one for one in json.loads(press.told())["problems"] if one["about"] == "keys"]
        assert "rtmw://plant/brief" in keys["why"]
        assert "rtmw node keys renew" in keys["why"]
        linked.press.node.kill()
        wait_until(lambda: [peer["up"] for peer in linked.peers("hub")] == [False], "the link is down")
        wait_until(lambda: "link with rtmw://plant/brief" in abouts(hub), "the page says so")
    finally:
        linked.end()


def abouts(state: State) -> set[str]:
    """What problems are about."""
    return {problem["about"] for problem in json.loads(state.told())["problems"]}


def test_metrics_are_those_of_the_command(browser: Browser, domain: rtmw.Domain, domain_id: int, run: Run) -> None:
    with rtmw.Publisher("t", domain=domain) as publisher:
        publisher.publish(b"x")
        answer = browser.ask("/metrics", cookie=browser.cookie)
        assert (answer.status, str(answer.getheader("Content-Type")).partition(";")[0]) == (200, "text/plain")
        names = {line.partition(" ")[0] for line in answer.read().decode().splitlines()}
        assert names == {line.partition(" ")[0] for line in run("metrics", "--domain", str(domain_id))[1].splitlines()}


def site_is_asked_again(browser: Browser) -> None:
    """What was told is told again for a while; another answer has another time."""
    before = browser.state()["time"]
    while browser.state()["time"] == before:
        pass


def test_a_domain_that_is_not_there_yet_or_was_removed_is_said(browser: Browser, domain_id: int) -> None:
    assert "does not exist" in browser.state()["absent"]
    for _ in range(2):
        with rtmw.Domain(domain_id) as made, rtmw.Publisher("t", domain=made):
            site_is_asked_again(browser)
            assert [row["topic"] for row in browser.topics()] == ["t"]
        rtmw.Domain.unlink(domain_id)
        site_is_asked_again(browser)
        assert "does not exist" in browser.state()["absent"]
        assert browser.ask("/graph.svg", cookie=browser.cookie).status == 503


@pytest.mark.parametrize("name", HOSTILE)
# Proves G114.
def test_names_and_values_are_data_whatever_they_say(name: str, browser: Browser, domain: rtmw.Domain) -> None:
    with rtmw.Publisher(name, dict, domain=domain) as publisher:
        publisher.publish({"text": name})
        assert browser.document(f"/value.json?topic={quote(name)}")["value"] == {"text": name}
        assert [row["topic"] for row in browser.topics()] == [name]
        picture = browser.ask("/graph.svg", cookie=browser.cookie).read()
    assert b"<script" not in picture


def test_a_value_is_that_of_the_last_message_and_says_why_where_there_is_none(
    browser: Browser, domain: rtmw.Domain
) -> None:
    def value(topic: str) -> Any:
        return browser.document(f"/value.json?topic={topic}")

    for name in ("t", ""):
        answer = browser.ask(f"/value.json?topic={name}", cookie=browser.cookie)
        assert answer.status == 503
        assert answer.read().startswith(f"There is no topic {name} in domain {domain.id}".encode())
    with rtmw.Publisher("t", domain=domain) as publisher:
        site_is_asked_again(browser)
        empty = value("t")
        assert empty["words"] == "no message lies in its queues"
        (edge,) = empty["endpoints"]
        assert (edge["does"], edge["topic"], edge["type"], edge["matched"]) == ("publishes", "t", "bytes", True)
        for data in (b"one", b"two"):
            publisher.publish(data)
        assert value("t")["value"] == "two"
        publisher.publish(bytes(1 << 17))
        assert "too many to show" in value("t")["words"]


# Proves G114.
def test_looking_on_takes_no_place_of_a_program_and_subscribes_to_nothing(
    browser: Browser, domain: rtmw.Domain
) -> None:
    with rtmw.Publisher("t", domain=domain) as publisher:
        publisher.publish(b"x")
        browser.document("/value.json?topic=t")
        state = browser.whole()
    (participant,) = state["doctor"]["books"]["participants"]
    assert (participant["pid"], participant["subscribers"]) == (os.getpid(), 0)
    assert state["top"][0]["subscribers"] == []
