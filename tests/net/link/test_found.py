"""Nodes with keys find each other by DDS discovery: who is dialled, by whom, and where nothing crosses."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import Program, describe_node
from rtmw.net.dds.wire import MARK, join
from rtmw.net.link.found import AFTER_S, AT_A_TIME, Found, Neighbourhood
from rtmw.net.link.links import Links
from rtmw.net.link.service import Way, way_between
from rtmw.net.neighbours import origin
from rtmw.net.security.rules import NO_RULES
from rtmw.net.security.tables import Link
from rtmw.net.settings import Settings
from tests import warm
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.link.nodes import ALL, links_of
from tests.net.namespaces import Network, obstacle
from tests.net.security.site import Site

RELIABLE = Reliability.RELIABLE
HERE = Neighbourhood(("127.0.0.1",))
HUB, PRESS = "rtmw://plant/hub", "rtmw://plant/press"


# ---- who is dialled, and by whom ----


# Proves G215.
def test_only_addresses_of_own_networks_and_of_named_hosts_are_dialled() -> None:
    near = Neighbourhood(("127.0.0.1",), ("192.0.2.7:7410", "[2001:db8::7]"))
    for place in ("127.0.0.1:7447", "127.9.9.9:1", "192.0.2.7:9000", "[2001:db8::7]:7447"):
        assert near.has(place), place
    elsewhere = ("192.0.2.8:7447", "10.0.0.1:7447", "[::1]:7447", "[2001:db8::8]:7447", "8.8.8.8:53")
    for place in (*elsewhere, "hub:7447", "localhost:7447", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "", "unix:/a"):
        assert not near.has(place), place
    node = Program(domain=1, link=uuid4().hex, link_name=PRESS, link_places=("10.0.0.1:22", "127.0.0.1:7", "hub:7"))
    found = Found.of(node, near)
    assert found is not None
    assert found.places == ("127.0.0.1:7",)


def test_an_announcement_that_no_node_makes_is_not_followed() -> None:
    def read(**said: Any) -> Program:
        text = json.dumps(
            {"domain": 1, "link": uuid4().hex, "link_name": PRESS, "link_places": ["127.0.0.1:7"], **said}
        )
        return Program.of((b"", MARK + text.encode(), b"", b"", b"", b""))

    assert Found.of(read(), HERE) is not None
    for said in ({"link": "x"}, {"link": None}, {"link_name": ""}, {"link_places": {}}, {"link_places": [7, "a" * 65]}):
        assert Found.of(read(**said), HERE) is None, said
    assert len(read(link_places=["127.0.0.1:7"] * 100).link_places) == 8


def test_a_node_that_listens_everywhere_is_reached_at_the_addresses_that_dds_uses() -> None:
    near = Neighbourhood(("10.0.0.7", "fd00::7"))
    ports = {"0.0.0.0:7447": 7447, "[::]:0": 5, "127.0.0.1:0": 6, "unix:/a": 0}
    everywhere = ["10.0.0.7:7447", "10.0.0.7:5", "[fd00::7]:5"]
    assert near.reached_at(ports) == [*everywhere, "127.0.0.1:6"]


Ends = tuple[Links, Links]


@pytest.fixture
def run(domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path) -> Callable[[Callable[[Ends], Any]], None]:
    """Runs a test in the loop of two nodes with keys, on loopback, the one with the smaller UUID first."""
    site = Site(tmp_path / "site")

    def go(test: Callable[[Ends], Any]) -> None:
        async def inside() -> None:
            both = list[Links]()
            for domain, name in zip(domains, (HUB, PRESS), strict=True):
                file = tmp_path / f"{domain.id}.toml"
                both.append(links_of(domain, file, f'keys = "{site.folder}"', site.node(name)))
                both[-1].settle(HERE)
            one, other = sorted(both, key=lambda links: links.register.mine.node.bytes)
            try:
                async with asyncio.timeout(PATIENCE):
                    await test((one, other))
            finally:
                for links in both:
                    links.close()

        asyncio.run(inside())

    return go


def announced(links: Links, **others: Any) -> dict[str, Program]:
    """What a node announces of itself, as another one reads it."""
    assert links.identity is not None
    node = links.register.mine.node.hex
    said = {
        "domain": 1,
        "link": node,
        "link_name": links.identity.name,
        "link_places": tuple(links.reached_at),
        **others,
    }
    return {uuid4().hex: Program(**said)}


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def is_linked(links: Links) -> bool:
    return [session.linked.is_up for session in links.sessions.values()] == [True]


@pytest.mark.parametrize("is_smaller", [True, False])
def test_the_smaller_uuid_dials_at_once_and_the_larger_one_when_that_brings_no_link(
    run: Callable[..., None], is_smaller: bool
) -> None:
    async def test(ends: Ends) -> None:
        dials, answers = ends if is_smaller else ends[::-1]
        begun = asyncio.get_running_loop().time()
        dials.see(announced(answers))
        await until(lambda: is_linked(dials) and is_linked(answers))
        took = asyncio.get_running_loop().time() - begun
        assert [session.who.is_dialler for session in dials.sessions.values()] == [True]
        assert is_smaller or took >= AFTER_S

    run(test)


def test_where_both_dial_there_is_one_link(run: Callable[..., None]) -> None:
    async def test(ends: Ends) -> None:
        for links, other in (ends, ends[::-1]):
            links.see(announced(other))
        await until(lambda: all(map(is_linked, ends)))
        (session,) = ends[0].sessions.values()
        assert session.who.is_dialler
        for links, other in (ends, ends[::-1]):  # announcements end, or change: the link stays
            links.see({})
            links.see(announced(other, link_places=("127.0.0.1:1",)))
        assert all(map(is_linked, ends))
        assert [*ends[0].sessions.values()] == [session]

    run(test)


def test_a_node_for_which_no_rule_is_is_dialled_from_the_reload_on_that_has_one(run: Callable[..., None]) -> None:
    async def test(ends: Ends) -> None:
        links, other = ends
        rules, shown = links.rights.table, announced(other)
        (place,) = other.reached_at
        links.rights.swap(NO_RULES)
        links.see(shown)
        await until(lambda: links.found.why)
        assert "no rule is for" in links.found.why[place]
        assert not other.refused, "nobody has come"
        links.obey(replace(links._settings, allow=rules), links.identity)
        links.see(shown)
        await until(lambda: is_linked(links))
        assert not links.found.why

    run(test)


# Proves G215.
def test_at_most_64_nodes_are_dialled_at_a_time_and_each_has_its_turn(run: Callable[..., None]) -> None:
    async def test(ends: Ends) -> None:
        tried, open_now, most = set[str](), 0, 0
        full = asyncio.Event()

        async def stand(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal open_now, most
            tried.add(writer.get_extra_info("sockname")[0])
            open_now += 1
            most = max(most, open_now)
            if open_now == AT_A_TIME:
                full.set()
            await full.wait()
            open_now -= 1  # before the other end can see it, and another one comes
            writer.close()

        server = await asyncio.start_server(stand, "0.0.0.0", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            crowd = dict[str, Program]()
            for number in range(2 * AT_A_TIME):
                crowd |= announced(
                    ends[1], link=UUID(int=(1 << 128) - 1 - number).hex, link_places=(f"127.0.1.{number}:{port}",)
                )
            ends[0].see(crowd)
            await until(lambda: len(tried) == len(crowd))
            assert most == AT_A_TIME

    run(test)


def test_a_node_that_is_to_find_nobody_is_not_found(
    domains: tuple[rtmw.Domain, rtmw.Domain], tmp_path: Path, run: Callable[..., None]
) -> None:
    async def test(ends: Ends) -> None:
        file, lines = tmp_path / "alone.toml", f'keys = "{tmp_path}"\nfind = false'
        alone = links_of(domains[0], file, lines, ends[0].identity)
        alone.settle(HERE)
        alone.see(announced(ends[1]))
        ends[1].see(announced(alone))
        assert (alone.ports, alone.reached_at, alone.found.followed, ends[1].found.followed) == ({}, [], 0, 0)
        alone.close()

    run(test)


# ---- the nine pairs ----

KINDS = ("none", "keys", "both")
"""Of settings: no keys, keys, and keys with `insecure = true` beside them."""
WAYS = {
    ("none", "none"): Way.DDS, ("none", "keys"): Way.REFUSED, ("none", "both"): Way.CLEAR,
    ("keys", "keys"): Way.LINK, ("keys", "both"): Way.LINK, ("both", "both"): Way.LINK,
}  # fmt: skip


def way_of(kinds: tuple[str, str]) -> Way:
    return WAYS.get(kinds) or WAYS[kinds[::-1]]


@pytest.mark.parametrize("kinds", [*product(KINDS, KINDS)])
# Proves G214.
def test_both_ends_of_each_pair_judge_alike_whatever_the_rules_are(kinds: tuple[str, str]) -> None:
    links = {kind: Link(keys=Path("k") if kind != "none" else None, insecure=kind == "both") for kind in KINDS}
    programs = {
        kind: Program(domain=1, link=uuid4().hex if kind != "none" else None, link_name=PRESS if kind != "none" else "",
                      link_insecure=kind == "both")
        for kind in KINDS
    }  # fmt: skip
    for knows in (lambda _: True, lambda _: False):
        for own, other in (kinds, kinds[::-1]):
            assert way_between(links[own], knows, programs[other]) is way_of(kinds), (own, other)
            assert way_between(links[own], knows, Program()) is Way.DDS, "a DDS program is no node"


class Kinds:
    """Six nodes of one DDS domain, on loopback: two of each kind, `none0`, `none1`, `keys0`, …"""

    def __init__(self, folder: Path, kinds: tuple[str, ...] = KINDS) -> None:
        self.folder, self.site = folder, Site(folder / "site")
        dds = free_number()
        self.hosts = {
            f"{kind}{n}": Host(free_number(with_dds=False), dds, folder, pool="2M") for kind in kinds for n in (0, 1)
        }

    def start(self, *names: str) -> None:
        """Start these nodes, or all."""
        for name in names or self.hosts:
            lines = [] if name[:4] == "none" else [f'keys = "{self.site.keys(f"rtmw://plant/{name}")}"']
            lines += ["insecure = true"] if name[:4] == "both" else []
            file = self.folder / f"{name}.toml"
            top = 'dds_topics = ["*"]' if name[:4] == "both" else ""
            file.write_text("\n".join([top, "[link]", *lines, ALL]))
            self.hosts[name].start("--config", str(file))

    def listed(self, by: str) -> dict[str, dict[str, Any]]:
        """The other nodes, as `rtmw node list` of this one has them."""
        told = warm.run("node", "list", "--json", "--domain", str(self.hosts[by].number), check=True).stdout
        rows = {row["pid"]: row for row in json.loads(told)[1:]}
        return {name: rows[host.node.pid] for name, host in self.hosts.items() if host.node.pid in rows}

    def examined(self, by: str) -> dict[str, str]:
        told = json.loads(warm.run("node", "doctor", "--json", "--domain", str(self.hosts[by].number)).stdout)
        return {one["name"]: f"{one['found']}; {one['advice']}" for one in told["checks"]}


@pytest.fixture
def six(tmp_path: Path) -> Iterator[Kinds]:
    made = Kinds(tmp_path)
    yield made
    for host in made.hosts.values():
        host.end()


SAID = {
    ("none", "keys"): "it has keys, and this node has none: nothing crosses; give this node keys",
    ("keys", "none"): "it has no keys, and this node has: nothing crosses; give it keys",
    ("none", "both"): "this node has no keys: dds_topics cross in clear, by insecure = true beside the keys there",
    ("both", "none"): "it has no keys: dds_topics cross in clear, by insecure = true beside the keys here",
}


# Proves G214.
def test_what_crosses_between_the_nine_pairs_and_what_both_ends_say(six: Kinds) -> None:
    six.start()
    pairs = [*product((f"{kind}0" for kind in KINDS), (f"{kind}1" for kind in KINDS))]
    directions = [*pairs, *(pair[::-1] for pair in pairs)]
    with ExitStack() as stack:
        takers = {
            (sender, taker): stack.enter_context(
                rtmw.Subscriber(f"of/{sender}", reliability=RELIABLE, history=1, domain=six.hosts[taker].domain)
            )
            for sender, taker in directions
        }
        for sender in six.hosts:
            out = rtmw.Publisher(
                f"of/{sender}", reliability=RELIABLE, history=1, max_blocking=PATIENCE, domain=six.hosts[sender].domain
            )
            assert stack.enter_context(out).publish(sender.encode())
        refused = [pair for pair in directions if way_of((pair[0][:4], pair[1][:4])) is Way.REFUSED]
        for pair in directions:
            if pair not in refused:
                assert takers[pair].receive(timeout=PATIENCE).value == pair[0].encode(), pair
        for own in six.hosts:
            others = [other for one, other in directions if one == own]
            wait_until(lambda: {*others} <= {*six.listed(own)}, f"{own} hears all others")  # noqa: B023
            listed, examined, links = six.listed(own), six.examined(own), six.hosts[own].info()["links"]
            for other in others:
                way, words = way_of((own[:4], other[:4])), SAID.get((own[:4], other[:4]), "")
                assert listed[other]["by"] == ("DDS" if way is Way.DDS else way), (own, other)
                number, host = six.hosts[other].number, socket.gethostname()
                told = examined.get(f"topics of {host}, domain {number}", "")
                named = f"the node of domain {number} on {host}: "
                assert (words in told, bool(told)) == (True, bool(words)), (own, other, told)
                assert (named in six.hosts[own].said) is bool(words), (own, other)
                assert words in six.hosts[own].said, (own, other)
                peers = links["peers"] if links else []
                ciphers = [bool(row["cipher"]) for row in peers if row["pid"] == six.hosts[other].node.pid]
                assert ciphers == ([True] if way is Way.LINK else []), (own, other)
        assert not any(takers[pair].take() for pair in refused)


# ---- whoever lies, and what fails ----


@pytest.fixture(params=["keys"])
def two(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kinds]:
    """Two nodes of one kind."""
    made = Kinds(tmp_path, (request.param,))
    yield made
    for host in made.hosts.values():
        host.end()


def link_of(site: Kinds, name: str) -> list[tuple[Any, ...]]:
    """Links of a node: the peer, since when, and whether it is up."""
    links = site.hosts[name].info()["links"]
    return [(row["peer"], row["since"], row["up"]) for row in links["peers"]] if links else []


# Proves G215.
def test_whoever_says_the_uuid_of_a_living_peer_takes_nothing_from_it(two: Kinds) -> None:
    """Also its name, its region and another place, where somebody listens who has no key."""
    two.start()
    here, there = two.hosts["keys0"], two.hosts["keys1"]
    for name in two.hosts:
        wait_until(lambda: [row[2] for row in link_of(two, name)] == [True], "the link")  # noqa: B023
    before = link_of(two, "keys0")
    with ExitStack() as stack:
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, domain=here.domain))
        out = stack.enter_context(rtmw.Publisher("a", reliability=RELIABLE, max_blocking=PATIENCE, domain=there.domain))
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        region = origin(there.domain)
        node = uuid5(NAMESPACE_URL, f"{region} {there.dds_domain}")
        place = f"127.0.0.1:{server.getsockname()[1]}"
        link = {"link": node.hex, "link_name": "rtmw://plant/keys1", "link_places": [place]}
        liar = join(Settings(domain=here.dds_domain), describe_node("elsewhere", 1, 99, region, link))
        wait_until(lambda: here.info()["participants"] == 2, "the liar is seen")
        for number in range(100):
            assert out.publish(b"%d" % number)
        assert [taker.receive(timeout=PATIENCE).value for _ in range(100)] == [b"%d" % one for one in range(100)]
        assert link_of(two, "keys0") == before
        there.kill()
        wait_until(lambda: place in here.info()["links"]["failing_found"], "now the liar is dialled")
        there.start("--config", str(two.folder / "keys1.toml"))
        wait_until(lambda: [row[2] for row in link_of(two, "keys1")] == [True], "the node is found again")
        assert out.publish(b"the last")
        assert taker.receive(timeout=PATIENCE).value == b"the last"
        del liar


@pytest.mark.parametrize("two", ["both"], indirect=True)
# Proves G214.
def test_a_link_that_fails_does_not_send_topics_in_clear(two: Kinds, tmp_path: Path) -> None:
    """Not even where `insecure = true` stands beside both keys: the authorities do not know each other."""
    two.start("both0")
    two.site = Site(tmp_path / "other")
    two.start("both1")
    here, there = two.hosts.values()
    for host in (here, there):
        wait_until(partial(says_of_the_link, host), "the node says that there is no link")
    with (
        rtmw.Subscriber("a", reliability=RELIABLE, history=1, domain=here.domain) as taker,
        rtmw.Publisher("a", reliability=RELIABLE, history=1, domain=there.domain) as out,
    ):
        assert out.publish(b"secret")
        for name, other in (("both0", there), ("both1", here)):
            told = two.examined(name)[f"topics of {socket.gethostname()}, domain {other.number}"]
            assert "both have keys, and there is no link: nothing crosses" in told
        looked = [host.info()["told_ns"] for host in (here, there)]
        for host, before in zip((here, there), looked, strict=True):  # what would cross over DDS has crossed by then
            wait_until(lambda: host.info()["told_ns"] > before + 1_500_000_000, "two more documents")  # noqa: B023
        assert taker.take() is None
        assert (here.crossed("in", "a")["received"], there.crossed("out", "a")["sent"]) == (0, 0)


@pytest.mark.parametrize("two", ["keys"], indirect=True)
def test_find_false_is_named_at_both_ends_as_the_reason_why_there_is_no_link(two: Kinds) -> None:
    two.start("keys1")
    file = two.folder / "keys0.toml"
    file.write_text(f'[link]\nkeys = "{two.site.keys("rtmw://plant/keys0")}"\nfind = false\n{ALL}')
    two.hosts["keys0"].start("--config", str(file))
    reasons = {
        "keys0": "find = false here, so connect and listen count alone",
        "keys1": "it tells no place for links, as a node with find = false does",
    }
    for name, other in (("keys0", "keys1"), ("keys1", "keys0")):
        wait_until(lambda: other in two.listed(name), "the other one is heard")  # noqa: B023
        number, host = two.hosts[other].number, socket.gethostname()
        assert reasons[name] in two.examined(name)[f"topics of {host}, domain {number}"]
        said = f"No link with the node of domain {number} on {host}: {reasons[name]}."
        for command in ("list", "info"):
            told = warm.run("node", command, "--domain", str(two.hosts[name].number), check=True).stdout
            assert said in " ".join(told.split()), (name, command)


def says_of_the_link(host: Host) -> bool:
    return "no link with 127.0.0.1" in host.said and bool(host.info()["peers"])


# ---- two hosts ----

SNIFF = """
import socket, sys
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print("ready", flush=True)
while True:
    packet = one.recv(1 << 16)
    for word in sys.argv[1:]:
        if word.encode() in packet:
            print(word, flush=True)
"""
needs_namespaces = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))


@needs_namespaces
@pytest.mark.parametrize("has_keys", [True, False], ids=["keys", "no keys"])
# Proves G214.
def test_a_topic_crosses_encrypted_between_two_hosts_with_keys_that_name_an_interface_alone(
    tmp_path: Path, has_keys: bool
) -> None:
    """Without keys the same is seen on the line."""
    site, dds = Site(tmp_path / "site"), free_number()
    with ExitStack() as stack:
        network = Network(2)
        stack.callback(network.close)
        hosts = [Host(free_number(with_dds=False), dds, tmp_path, network.place(at)) for at in (0, 1)]
        words = [sys.executable, "-c", SNIFF, "a-secret-of-the-plant", "the-end-of-the-test"]
        command = [*network.place(1).enter, *words]
        line = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(line.kill)
        assert line.stdout is not None
        assert line.stdout.readline() == "ready\n"
        for at, host in enumerate(hosts):
            stack.callback(host.end)
            file = tmp_path / f"{at}.toml"
            keys = f'[link]\nkeys = "{site.keys(f"rtmw://plant/n{at}")}"\n' if has_keys else ""
            file.write_text(f"{keys}{ALL}")
            host.start("--config", str(file))
        taker = stack.enter_context(rtmw.Subscriber("a", reliability=RELIABLE, history=1, domain=hosts[1].domain))
        out = stack.enter_context(rtmw.Publisher("a", reliability=RELIABLE, history=1, domain=hosts[0].domain))
        assert out.publish(b"a-secret-of-the-plant")
        assert taker.receive(timeout=PATIENCE).value == b"a-secret-of-the-plant"
        udp = "import socket; socket.socket(2, 2).sendto(b'the-end-of-the-test', ('10.77.0.2', 9))"
        subprocess.run([*network.place(0).enter, sys.executable, "-c", udp], check=True, timeout=PATIENCE)
        seen = [line.stdout.readline().strip()]
        while seen[-1] != "the-end-of-the-test":
            seen.append(line.stdout.readline().strip())
        assert ("a-secret-of-the-plant" in seen) is not has_keys
        if has_keys:
            wait_until(lambda: bool(hosts[1].info()["links"]["peers"]), "the document has the link")
            (peer,) = hosts[1].info()["links"]["peers"]
            assert peer["cipher"]
