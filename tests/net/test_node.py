"""The node as a daemon: it starts, says how it is, gives way, and comes back."""

from __future__ import annotations

import json
import re
import signal

import rtmw
from rtmw.cli.node_status import find_status
from tests import warm
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until


def node_info(host: Host, command: str = "info") -> dict[str, object]:
    """What `rtmw node info --json` prints."""
    return dict(json.loads(warm.run("node", command, "--domain", str(host.number), "--json", check=True).stdout))


def test_it_ends_with_status_0_on_sigterm_and_gives_everything_back(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start()
    assert host.stop() == 0
    assert "stopped" in host.said


def test_a_second_node_of_the_same_domains_is_refused(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start()
    first = host.node
    second = host.launch()
    assert second.wait(PATIENCE) == 1
    assert f"a node for domain {host.number} and DDS domain {host.dds_domain} runs already" in host.said
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE) == 0


# Proves G262.
def test_programs_go_on_when_it_dies_and_are_bridged_again_when_it_is_back(pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("go/on", domain=there.domain)
    publisher = rtmw.Publisher("go/on", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    here.kill()
    assert publisher.publish(b"alone")
    here.start()

    def crosses() -> bool:
        publisher.publish(b"together")
        return any(bytes(sample.data) == b"together" for sample in subscriber.take_many(100))

    wait_until(crosses, "the topic is not carried again")


def test_a_node_says_what_crosses_and_which_peers_it_hears(pair: tuple[Host, Host]) -> None:
    here, there = pair
    subscriber = rtmw.Subscriber("shown", domain=there.domain)
    publisher = rtmw.Publisher("shown", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(b"seen")
    assert subscriber.receive(timeout=PATIENCE).value == b"seen"

    def crossed() -> bool:
        out, into = node_info(here)["out"], node_info(there)["in"]
        return "'sent': 1" in str(out) and "'received': 1" in str(into) and "'topic': 'shown'" in str(out)

    wait_until(crossed, "the counters do not show the message")
    wait_until(lambda: "offset_ns': 0" not in str(node_info(here)["peers"]) != "[]", "no peer is heard")


def test_a_node_that_stands_still_has_said_nothing_since(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start()
    host.info()
    halt(host)
    since = silence(host)
    wait_until(lambda: silence(host) > since + 1.0, "its silence does not last")
    go_on(host)
    wait_until(lambda: silence(host) < since + 1.0, "it is still silent")


def silence(host: Host) -> float:
    status = find_status(host.number, PATIENCE)
    assert status is not None
    return status.silent_s


def test_the_clock_of_a_peer_on_the_same_machine_is_right(pair: tuple[Host, Host]) -> None:
    def offset() -> float | None:
        peers = node_info(pair[0])["peers"]
        assert isinstance(peers, list)
        return next((peer["offset_ns"] for peer in peers), None)

    wait_until(lambda: offset() is not None, "the offset is not measured")
    wait_until(lambda: abs(offset() or 1e9) < 0.1e9, "the offset is wrong")


def test_the_log_says_with_a_time_when_a_peer_is_heard_and_when_no_more(pair: tuple[Host, Host]) -> None:
    here, there = pair

    def heard() -> int:
        line = rf"^\d{{4}}-\d\d-\d\d [\d:,]+ rtmw node: the node of domain {there.number} on \S+ \(\d+\) is heard$"
        return len(re.findall(line, here.said, re.MULTILINE))

    wait_until(lambda: heard() == 1, "the log does not say that the peer is heard")
    gone = f"({there.node.pid}) has said nothing for 5 s"
    there.kill()
    wait_until(lambda: gone in here.said, "the log does not say that the peer is silent")
    there.start()
    wait_until(lambda: heard() == 2, "the log does not say that the peer is back")


def test_without_a_node_info_says_how_to_start_one(hosts: tuple[Host, Host]) -> None:
    done = warm.run("node", "info", "--domain", str(hosts[0].number))
    assert done.returncode == 1
    assert f"No node runs for domain {hosts[0].number}; start one with: rtmw node" in done.stderr


# Proves G286.
def test_it_ends_when_its_domain_is_removed_and_carries_the_next_one_when_it_is_back(pair: tuple[Host, Host]) -> None:
    here, there = pair
    rtmw.Domain.unlink(here.number)
    here.domain = rtmw.Domain(here.number, pool="8M")
    assert here.node.wait(PATIENCE) == 1
    assert f"domain {here.number} was removed from this host; start the node again" in here.said
    here.start()
    with rtmw.Publisher("t", domain=here.domain) as publisher, rtmw.Subscriber("t", domain=there.domain) as subscriber:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        publisher.publish(b"again")
        assert subscriber.receive(timeout=PATIENCE).value == b"again"


def test_it_makes_the_domain_of_the_size_asked_for_if_it_is_the_first_there(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start("--pool", "3M")
    assert host.domain.pool == 8 << 20  # of before
    assert host.stop() == 0
    rtmw.Domain.unlink(host.number)
    host.start("--pool", "3M")
    host.domain = rtmw.Domain(host.number)
    assert host.domain.pool == 3 << 20


# Proves G306.
def test_a_pool_of_another_size_than_asked_for_is_said_once_and_shown(hosts: tuple[Host, Host]) -> None:
    host, words = hosts[0], "it has 8.0 MiB, and 3.0 MiB is asked for"
    host.start("--pool", "3M")
    command = ("--domain", str(host.number))
    assert (
        f"Warning: the pool: {words}; a domain that exists keeps its own pool"
        in warm.run("node", "info", *command).stdout
    )
    done = warm.run("node", "doctor", *command, "--json")
    (found,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "pool"]
    assert found["found"] == words
    assert "start the node first" in found["advice"]
    assert done.returncode == 1
    assert host.stop() == 0
    assert host.said.count(f"the pool of domain {host.number}: {words}") == 1
    host.start()
    assert node_info(host)["pool_asked"] is None
    assert host.stop() == 0
    assert host.said.count("is asked for") == 1


# Proves G317.
def test_a_node_cleans_up_after_a_program_that_dies(hosts: tuple[Host, Host], domain_id: int, spawn: Spawn) -> None:
    host = hosts[0]
    host.start()
    child = spawn(f"""
        import rtmw
        loan = rtmw.Publisher("t", domain={host.number}).loan(100)
        print("holds", flush=True)
        input()
    """)
    assert child.line() == "holds"
    child.kill()
    wait_until(lambda: f"({child.pid}) ended without closing" in host.said, "the death was not noticed")


def test_sighup_reads_the_file_again(hosts: tuple[Host, Host], tmp_path: object) -> None:
    here, there = hosts
    file = here.log.with_name("node.toml")
    file.write_text('topics_out = ["open/*"]\n')
    here.start("--config", str(file))
    there.start()
    publishers = [rtmw.Publisher(name, domain=here.domain) for name in ("open/a", "closed/a")]
    subscribers = [rtmw.Subscriber(name, domain=there.domain) for name in ("open/a", "closed/a")]
    assert publishers[0].wait_for_subscribers(1, timeout=PATIENCE)
    assert publishers[1].stats().subscribers == 0
    file.write_text("topics_out = 5\n")
    here.node.send_signal(signal.SIGHUP)
    wait_until(lambda: "the settings stay as they are" in here.said, "the bad file is not refused")
    file.write_text('topics_out = ["*"]\nlease = 5\n')
    here.node.send_signal(signal.SIGHUP)
    assert publishers[1].wait_for_subscribers(1, timeout=PATIENCE)
    assert "lease: takes effect when the node is started again" in here.said
    publishers[1].publish(b"open now")
    assert subscribers[1].receive(timeout=PATIENCE).value == b"open now"


def test_what_needs_a_new_start_stays_and_is_said_at_each_sighup(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    file = host.log.with_name("node.toml")
    file.write_text("")
    host.start("--config", str(file))
    before = host.info()
    file.write_text('ros2 = true\nlease = 5\ntopics_in = ["in"]\n')
    for said in ("changed: topics_in\n", "changed: nothing\n"):
        host.node.send_signal(signal.SIGHUP)
        wait_until(lambda said=said: said in host.said, f"{said!r} is not said")
    assert host.said.count("lease, ros2: takes effect when the node is started again") == 2
    with rtmw.Subscriber("out", domain=host.domain):
        wait_until(lambda: [one["cause"] for one in host.info()["apart"]] == ["pattern"], "the pattern is not taken in")
    assert host.info()["multicast"] == before["multicast"] is True
