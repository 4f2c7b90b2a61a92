"""`rtmw node check`: what a node would do with a file of settings, and what is in its way, without starting one."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

import rtmw
from rtmw.net.dds.wire import udp_ports
from tests.cli.command import Run
from tests.conftest import free_number
from tests.net.hosts import Host
from tests.ports import free_ports
from tests.replica.nodes import Here

Found = dict[str, tuple[str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "node.toml"


def checked(run: Run, file: Path, text: str) -> tuple[int, Found, list[dict[str, Any]]]:
    """The status, what was found and advised by name, and the topics."""
    file.write_text(text)
    status, out, err = run("node", "check", str(file), "--json")
    assert err == ""
    told = json.loads(out)
    assert told["well"] is (status == 0)
    return status, {one["name"]: (one["found"], one["advice"]) for one in told["checks"]}, told["topics"]


# Proves G306.
def test_a_domain_with_another_pool_than_the_settings_ask_for_is_shown_with_what_to_do(
    run: Run, file: Path, domain_id: int
) -> None:
    with rtmw.Domain(domain_id, pool="8M"):
        for pool, well in (('pool = "3M"', False), ('pool = "8M"', True), ("", True)):
            status, found, _ = checked(run, file, f'dds_domain = 4\ninterface = "lo"\n{pool}\n')
            shown, advice = found["domain"]
            assert shown == f"{domain_id}, with a pool of 8.0 MiB"
            assert (status == 0, advice == "") == (well, well)


def test_good_settings_are_shown_as_the_node_would_use_them(run: Run, file: Path, domain_id: int) -> None:
    text = 'dds_domain = 4\npeers = ["localhost", "127.0.0.1:7410"]\ninterface = "lo"\npool = "3M"\nros2 = true\n'
    text += 'max_rate = "2M"\ntopic_rates = ["camera/*=1M"]\npeer_rates = ["10.0.0.*=3M"]\n'
    text += 'topics_out = ["camera/*"]\ntopics_in = []\nmetrics_port = 0\n'
    status, found, topics = checked(run, file, text)
    assert (status, topics) == (0, [])
    assert {name: shown for name, (shown, _) in found.items()} == {
        "domain": f"{domain_id}, made by the node with a pool of 3.0 MiB",
        "node": "none runs",
        "DDS domain": "4, names of ROS 2, UDP ports 8400 to 8649",
        "interface": "lo, IPv4",
        "datagrams": "65,500 bytes at most",
        "peer localhost": "127.0.0.1",
        "peer 127.0.0.1:7410": "127.0.0.1:7410",
        "topics that leave": "camera/*",
        "topics that come in": "none",
        "topics by link only": "none",
        "topics by DDS, in clear": "all",
        "topics open to every program of this host": "to read: camera/*; to publish: none",
        "rate of all": "2.0 MiB/s",
        "rate of camera/*": "1.0 MiB/s",
        "rate towards 10.0.0.*": "3.0 MiB/s",
        "a silent peer is gone": "after 10 s",
        "RELIABLE topics wait for the next node": "5 s",
        "metrics": "any free port of 127.0.0.1",
        "services": "none",
    }


RULE = '[[allow]]\npeer = "rtmw://plant/*"\npublish = ["*"]\n'
UNFOUND = "none: find = false, and neither connect nor listen"


@pytest.mark.parametrize(
    ("text", "row", "found", "place"),
    [
        ('[link]\nkeys = "keys"\nfind = false\n' + RULE, "links", UNFOUND, "line 3"),
        ("dds_topics = []\n", "ways of topics", "none: no dds_topics, and no links", "line 1"),
    ],
)
def test_settings_with_which_nothing_can_ever_cross_are_in_the_way(
    run: Run, file: Path, text: str, row: str, found: str, place: str
) -> None:
    shown, advice = checked(run, file, text)[1][row]
    assert shown == found
    assert advice.startswith(f"{file}, {place}: nothing can ever cross; ")


def test_a_node_without_links_may_be_there_for_dds_programs_or_for_its_services(run: Run, file: Path) -> None:
    text = 'dds_topics = ["pub/*"]\n[link]\nkeys = "keys"\nfind = false\n' + RULE
    assert checked(run, file, text)[1]["links"] == (UNFOUND, "")
    status, found, _ = checked(run, file, 'dds_topics = []\nserve = ["transfer"]\ndata = "kept"\n')
    assert (status, "ways of topics" in found) == (0, False)


@pytest.mark.parametrize(
    ("dds", "met"),
    [('"pub/*"', "met over DDS in clear, for pub/*"), ("", "met, and nothing crosses: dds_topics names none")],
)
def test_insecure_beside_keys_has_a_row_that_says_how_nodes_without_keys_are_met(
    run: Run, file: Path, dds: str, met: str
) -> None:
    text = f'dds_topics = [{dds}]\n[link]\nkeys = "keys"\n'
    assert "nodes without keys" not in checked(run, file, text + RULE)[1]
    found = checked(run, file, text + "insecure = true\n" + RULE)[1]
    assert found["nodes without keys"] == (f"{met} (insecure = true)", "")


def test_datagrams_that_an_expert_sizes_are_left_to_what_he_says(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CYCLONEDDS_URI", "<General><MaxMessageSize>1400B</MaxMessageSize></General>")
    _, found, _ = checked(run, file, 'dds_domain = 4\ninterface = "lo"\n')
    assert found["datagrams"] == ("as large as CYCLONEDDS_URI says", "")


def test_services_are_shown_with_their_folder_and_where_other_nodes_meet_them(run: Run, file: Path) -> None:
    text = 'serve = ["transfer"]\ndata = "kept"\n[transfer]\nlisten = "127.0.0.1:7448"\nconnect = ["127.0.0.1:7449"]\n'
    status, found, _ = checked(run, file, text)
    assert status == 0
    assert found["services"][0] == "transfer"
    assert found["data"][0] == f"{file.parent / 'kept'}, made when the node starts"
    assert found["transfers are accepted at"][0] == "127.0.0.1:7448, without TLS"
    assert found["transfers with 127.0.0.1:7449"][0] == "without TLS"


def test_a_folder_of_data_that_is_a_file_is_in_the_way(run: Run, file: Path) -> None:
    (file.parent / "kept").write_text("")
    status, found, _ = checked(run, file, 'serve = ["transfer"]\ndata = "kept"\n')
    assert status == 1
    assert found["data"][1] == f"{file}, line 2: {file.parent / 'kept'} is no folder"


def test_nothing_is_made_and_nothing_starts(run: Run, file: Path, domain_id: int) -> None:
    checked(run, file, "metrics_port = 0\n")
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_topics_that_are_there_are_shown_with_what_may_become_of_them(
    run: Run, file: Path, domain: rtmw.Domain
) -> None:
    with rtmw.Publisher("camera/front", domain=domain), rtmw.Subscriber("speed", domain=domain):
        text = 'topics_out = ["camera/*"]\ntopics_in = ["speed"]\ntopic_rates = ["camera/*=1M"]\n'
        text += 'dds_topics = ["camera/*"]\n'
        _, _, topics = checked(run, file, text)
    assert topics == [
        {"topic": "camera/front", "may leave": "yes", "may come in": "no", "way": "DDS, in clear", "rate": "1.0 MiB/s"},
        {"topic": "speed", "may leave": "no", "may come in": "yes", "way": "link only", "rate": None},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lease = 5\nmax_rate = 'fast'\n", "line 2: max_rate cannot be used: it is 'fast'"),
        ("\ndomian = 3\n", "line 2: there is no setting domian"),
        ("lease = 5\npeers = ['10.0.0.7:x']\n", "line 2: peers cannot be used: '10.0.0.7:x' is no host"),
        ("domain = 0\ndomain 3\n", "not TOML: "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_line(run: Run, file: Path, text: str, said: str) -> None:
    file.write_text(text)
    status, out, err = run("node", "check", str(file))
    assert (status, out) == (1, "")
    assert err.startswith(f"rtmw: {file}")
    assert said in err


def test_a_file_that_says_nothing_is_told_to_be_empty_and_defaults_hold(run: Run, file: Path, domain_id: int) -> None:
    _, found, _ = checked(run, file, "# domain = 3\n")
    assert found["file"] == ("it is empty: what no option says has its default", "")
    assert found["domain"][0].startswith(f"{domain_id}, ")
    _, found, _ = checked(run, file, "lease = 5\n")
    assert "file" not in found


def test_a_file_that_is_not_there_is_named(run: Run, file: Path) -> None:
    assert run("node", "check", str(file)) == (1, "", f"rtmw: {file}: No such file or directory\n")


def test_each_peer_that_cannot_be_found_is_named_with_the_line_and_what_to_do(run: Run, file: Path) -> None:
    status, found, _ = checked(run, file, 'lease = 5\npeers = ["a.invalid", "127.0.0.1", "b.invalid"]\n')
    assert status == 1
    assert found["peer 127.0.0.1"] == ("127.0.0.1", "")
    for name in ("a.invalid", "b.invalid"):
        shown, advice = found[f"peer {name}"]
        assert shown == "not found"
        assert advice.startswith(f"{file}, line 2: peers: the host '{name}' cannot be found")
        assert "name its IPv4 address instead" in advice


@pytest.mark.parametrize(
    ("table", "last"),
    [
        ("peers = {}\n", "4985 further peers"),
        ('[link]\nkeys = "keys"\nconnect = {}\n', "4985 further links"),
    ],
)
# Proves G106.
def test_after_sixteen_hosts_that_cannot_be_found_no_more_are_looked_up(
    run: Run, file: Path, table: str, last: str
) -> None:
    hosts = json.dumps([f"h{number}.invalid:7410" for number in range(5001)])
    status, found, _ = checked(run, file, table.format(hosts))
    about = [name for name in found if "invalid" in name or "further" in name]
    assert status == 1
    assert about[16:] == [last]
    assert found[last][0] == "not looked up"


def test_a_port_of_metrics_that_is_taken_is_named_with_the_line(run: Run, file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, found, _ = checked(run, file, f"lease = 5\nmetrics_port = {port}\n")
    assert status == 1
    assert f"{file}, line 2: metrics cannot be served at port {port}" in found["metrics"][1]


def test_what_it_says_is_what_the_node_does_and_a_node_that_runs_is_not_in_its_own_way(
    run: Run, file: Path, domain_id: int, tmp_path: Path
) -> None:
    dds_domain = free_number()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = f'domain = {domain_id}\ndds_domain = {dds_domain}\ninterface = "lo"\nmetrics_port = {port}\n'
    host = Host(domain_id, dds_domain, tmp_path)
    try:
        assert checked(run, file, text)[0] == 0
        host.start("--config", str(file))
        status, found, _ = checked(run, file, text)
        assert status == 0
        assert found["node"][0].startswith(f"process {host.node.pid} runs; SIGHUP takes in ")
        assert f"metrics are at {found['metrics'][0]}" in host.said
        assert found["interface"][0].startswith(f"{host.info()['interface']}, ")
        another = text.replace(f"dds_domain = {dds_domain}", f"dds_domain = {free_number()}")
        said = checked(run, file, another)[1]["node"][0]
        assert said.startswith("none runs on DDS domain ")
        assert f"process {host.node.pid} carries domain {domain_id} on DDS domain {dds_domain}: stop it first" in said
        bound = {one.laddr.port for one in psutil.Process(host.node.pid).net_connections("udp") if one.laddr}
        ports = udp_ports(dds_domain)
        assert f"UDP ports {ports[0]} to {ports[-1]}" in found["DDS domain"][0]
        assert len(bound.intersection(ports)) >= 2
    finally:
        host.end()


def test_a_node_of_logs_alone_is_checked_for_what_it_serves_and_not_for_a_domain(
    run: Run, file: Path, tmp_path: Path
) -> None:
    port, other = free_ports(2)
    head = 'name = "a"\nserve = ["log"]\ndata = "a"\n[log]\n'
    places = f'listen = "127.0.0.1:{port}"\nconnect = ["127.0.0.1:{other}"]\n'
    status, found, topics = checked(run, file, f'{head}{places}[control]\nstore = "sqlite:control.db"\n')
    assert (status, topics) == (0, [])
    own = {"node", "services", "data", "logs are accepted at", f"log with 127.0.0.1:{other}", "control store"}
    assert {*found} == own
    assert found["control store"] == (f"{tmp_path / 'control.db'}, made with the first log", "")
    assert not (tmp_path / "control.db").exists()
    (tmp_path / "control.db").write_bytes(b"no database" * 100)
    bad = f'{head}listen = "127.0.0.1:{port}"\nconnect = ["nowhere.invalid:1"]\ninsecure = true\n'
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        status, found, _ = checked(run, file, f'{bad}[control]\nstore = "sqlite:control.db"\n')
    assert status == 1
    assert "line 5: 127.0.0.1:" in found["logs are accepted at"][1]
    assert "Address already in use" in found["logs are accepted at"][1]
    assert "the host 'nowhere.invalid' cannot be found" in found["log with nowhere.invalid:1"][1]
    assert "line 9: it is damaged, or no database" in found["control store"][1]
    status, found, _ = checked(run, file, f'{head}[control]\nstore = "sqlite:/proc/none/control.db"\n')
    assert (status, found["control store"][1]) == (1, f"{file}, line 6: this user cannot make a file in /proc/none")


def test_a_node_of_logs_that_runs_is_not_in_its_own_way(run: Run, file: Path, tmp_path: Path) -> None:
    with Here(tmp_path, "a") as nodes:
        nodes.create("orders")
        status, found, _ = checked(run, file, nodes.file("a").read_text())
    assert (status, found["logs are accepted at"][1]) == (0, "")
