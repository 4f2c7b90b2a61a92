"""Who may tell whom what: names, addresses, rules, and every mistake that a file can have (R2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.errors import RtmwError
from rtmw.relay import Frame
from rtmw.relay.policy import Judged, Policy
from rtmw.relay.settings import Agent, Relay, Subject, advice, read_relay

STAMP = b"2026-11-29 13:44:12.12"
FILE = """\
[relay]
listen = ["127.0.0.1:7460", "unix:relay.sock"]
t1 = "8s"
header = 0x7e
longest = 4096

[[agent]]
name = "AODB"
from = "127.0.0.1"

[[agent]]
name = "GATE"
address = "hex:47415445"
uid = 1000
absent = "keep"
charset = "gbk"

[[agent]]
name = "baggage"
address = "BAGS"
charset = "utf-8"
dial = "127.0.0.1:7461"

[[subject]]
address = "FLTS"

[[subject]]
address = "ALL"
group = ["GATE", "baggage"]

[[allow]]
peer = "agent:AODB"
order = ["GATE/I", "GATE/U/tell", "FLTS/*", "ALL/*"]
priority = 6
max_priority = 5
max_size = 100
lifetime = "1min"
max_orders = 100

[[allow]]
peer = "agent:*"
order = ["AODB/*"]
follow = ["FLTS"]
deny = ["AODB/D"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "node.toml"
    file.write_text(FILE.replace("priority = 6\n", "priority = 4\n", 1))
    return file


@pytest.fixture
def relay(path: Path) -> Relay:
    return read_relay(path)


@pytest.fixture
def policy(relay: Relay) -> Policy:
    return Policy(relay)


def agent(policy: Policy, name: str) -> Agent:
    found = policy.by_name[name]
    assert isinstance(found, Agent)
    return found


def judged(policy: Policy, source: str, to: str, command: str, data: bytes = b"x", connection: str = "") -> Judged:
    frame = Frame(agent(policy, source).address, policy.by_name[to].address, STAMP, "O", command, data)
    return policy.judge(agent(policy, connection or source), frame)


def test_the_settings_are_read_as_the_file_has_them(relay: Relay, tmp_path: Path) -> None:
    assert relay.listen == ("127.0.0.1:7460", f"unix:{tmp_path}/relay.sock")
    assert (relay.t1, relay.n1, relay.form.header) == (8.0, 3, 0x7E)
    assert [(one.name, one.address, one.origin, one.uid, one.charset) for one in relay.agents] == [
        ("AODB", b"AODB", "127.0.0.1", None, "utf-8"),
        ("GATE", b"GATE", "", 1000, "gbk"),
        ("baggage", b"BAGS", "", None, "utf-8"),
    ]
    assert [(one.name, one.group) for one in relay.subjects] == [("FLTS", ()), ("ALL", ("GATE", "baggage"))]
    assert relay.rules.rules[0].of_orders == (4, 60.0, 100)


# Proves R5.
def test_the_rule_that_allows_an_order_gives_it_priority_and_lifetime(policy: Policy) -> None:
    found = judged(policy, "AODB", "GATE", "I")
    assert (found.why, found.priority, found.lifetime) == ("", 4, 60.0)
    assert found.verdict is not None
    assert found.verdict.place is not None
    assert found.verdict.place.endswith("line 31")
    reply = judged(policy, "GATE", "AODB", "I")
    assert (reply.why, reply.priority, reply.lifetime) == ("", 3, 0.0)


@pytest.mark.parametrize(
    ("command", "data", "may"),
    [
        ("I", b"text", True),
        ("I", b"(tell :content x)", True),
        ("U", b"text", False),
        ("U", b"(tell :content x)", True),
        ("U", b"(Tell :content x)", True),
        ("U", b"(deny :content x)", False),
        ("U", b" ( TELL )", True),
        ("U", b"(tell", False),
        ("U", b"(tell :x 1) (achieve :content y)", False),
        ("U", b"((tell))", False),
        ("I", b"(tell", True),
        ("D", b"text", False),
        ("*", b"text", False),
        ("/", b"text", False),
    ],
)
# Proves R12.
def test_a_right_is_to_a_command_or_to_one_performative_of_it(
    policy: Policy, command: str, data: bytes, may: bool
) -> None:
    assert (judged(policy, "AODB", "GATE", command, data).why == "") is may


def test_what_is_denied_is_denied_for_each_performative(policy: Policy) -> None:
    assert judged(policy, "GATE", "AODB", "I", b"(tell)").why == ""
    assert judged(policy, "GATE", "AODB", "D", b"text").why == "a rule denies it"
    assert judged(policy, "GATE", "AODB", "D", b"(tell)").why == "a rule denies it"


@pytest.mark.parametrize(
    "data", [b"((achieve))", b"\xef\xbb\xbf(achieve)", b"\0(achieve)", b"(tell :x 1) (achieve)", b"("]
)
@pytest.mark.parametrize("denied", ["AODB/U/achieve", "*/achieve", "*achieve"])
def test_no_list_that_is_no_kqml_evades_the_denial_of_a_performative(path: Path, data: bytes, denied: str) -> None:
    path.write_text(path.read_text().replace('deny = ["AODB/D"]', f'deny = ["{denied}"]'))
    policy = Policy(read_relay(path))
    assert judged(policy, "GATE", "AODB", "U", b"(tell :content x)").why == ""
    assert judged(policy, "GATE", "AODB", "U", b"text (achieve)").why == ""
    assert judged(policy, "GATE", "AODB", "U", b"(achieve)").why == "a rule denies it"
    assert judged(policy, "GATE", "AODB", "U", data).why.startswith("a rule denies it")


# Proves R6.
def test_an_agent_is_who_its_connection_says_and_not_who_its_frames_say(policy: Policy) -> None:
    found = judged(policy, "AODB", "GATE", "I", connection="baggage")
    assert found.why == "its source is AODB, and the connection is of baggage"
    assert found.verdict is None


def test_an_address_of_nobody_and_an_order_above_the_ceilings_are_refused_in_words(policy: Policy) -> None:
    nobody = policy.judge(agent(policy, "AODB"), Frame("AODB", "NONE", STAMP, "O", "I"))
    assert nobody.why == "there is no address NONE"
    assert judged(policy, "AODB", "GATE", "I", bytes(101)).why == "101 B are more than 100 B, which the rule allows"
    to = policy.by_name["GATE"]
    assert policy.order(agent(policy, "AODB"), to, b"I", priority=6).why.startswith("priority 6 is above 5")
    assert policy.order(agent(policy, "AODB"), to, b"I", priority=5).priority == 5


def test_an_order_above_a_ceiling_is_refused_and_counted_also_behind_one_that_was_allowed(policy: Policy) -> None:
    for _ in range(2):
        assert judged(policy, "AODB", "GATE", "I", bytes(100)).why == ""
        assert judged(policy, "AODB", "GATE", "I", bytes(101)).why.startswith("101 B are more")
    assert [(row.cause, row.number) for row in policy.rights.denials()] == [("size", 2)]


def test_a_subject_goes_to_who_may_follow_it_and_a_group_to_its_members(policy: Policy) -> None:
    follows, group = policy.by_name["FLTS"], policy.by_name["ALL"]
    assert isinstance(follows, Subject)
    assert isinstance(group, Subject)
    assert policy.followers(follows) == ["AODB", "GATE", "baggage"]
    assert policy.followers(group) == ["GATE", "baggage"]
    assert policy.may_follow(follows, "GATE")
    assert not policy.may_follow(group, "GATE")


def test_other_settings_hold_from_the_next_order_on(policy: Policy, path: Path) -> None:
    before = policy.relay.rules.version
    path.write_text(path.read_text().replace('"GATE/I", ', ""))
    policy.obey(read_relay(path))
    assert policy.relay.rules.version != before
    assert judged(policy, "AODB", "GATE", "I").why == "no rule allows this peer to order it"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('t1 = "8s"', "t3 = 1"), "line 3: \\[relay\\] has no t3"),
        (('t1 = "8s"', "t1 = 0"), "line 3: t1 cannot be used: it is 0"),
        (("header = 0x7e", "header = 256"), "line 4: header cannot be used: it is 256"),
        (("header = 0x7e", 'order = "A"'), "order and answer are both 'A'"),
        (("header = 0x7e", "header = 10"), "line 4: header is 0x0A, which ends frames"),
        (("header = 0x7e", 'order = "AB"'), "must be one ASCII character"),
        (("127.0.0.1:7460", "0.0.0.0:7460"), "line 2: listen: 0.0.0.0:7460 is not on loopback"),
        (("unix:relay.sock", "unix:"), "the path of a socket is missing"),
        (('group = ["GATE"', 'group = ["GAT"'), "line 27: group: there is no agent GAT; there are AODB, GATE, baggage"),
        (('from = "127.0.0.1"', ""), "line 7: nothing says which connections are of agent AODB"),
        (('address = "BAGS"', ""), "line 18: agent baggage needs an address"),
        (('address = "BAGS"', 'address = "AODB"'), "has been given before"),
        (('address = "BAGS"', 'address = "hex:12"'), "'hex:12' is no address"),
        (('address = "FLTS"', ""), r"line 24: \[\[subject\]\] needs address = \"FLTS\""),
        (("longest = 4096", "longest = 10"), "line 5: longest cannot be used: it is 10"),
        (('dial = "127.0.0.1:7461"', 'dial = "127.0.0.1"'), "is not HOST:PORT"),
        (('absent = "keep"', 'absent = "wait"'), "it is 'wait'; it must be alert or keep"),
        (('charset = "gbk"', 'charset = "gbq"'), "there is no charset 'gbq'"),
        (('"GATE/I", ', '"GATE", '), "'GATE' names no command"),
        (("max_orders = 100", "max_orders = 0"), "max_orders cannot be used"),
        (("max_orders = 100", "max_order = 1"), "did you mean max_orders"),
        (("priority = 4", "priority = 6"), "line 34: priority is above max_priority"),
        (("[relay]", "[[relay]]"), "relay must be a table, \\[relay\\]"),
        (("[[agent]]", "[agent]"), "not TOML"),
        (('group = ["GATE", "baggage"]', "group = []"), "line 29: group cannot be used: it is empty; name its agents"),
        (('"GATE/I", ', '"GATE/II", '), "line 31: no order fits 'GATE/II': it is TO/COMMAND or"),
        (
            ('"GATE/I", ', '"GATE/0x0A", '),
            "no order fits 'GATE/0x0A'.*one letter, such as I, or a number, such as 0x07",
        ),
        (('"GATE/I", ', '"GATE/I/tell/now", '), "no order fits 'GATE/I/tell/now'"),
        (("priority = 4", 'deny = ["GATE/IU"]\npriority = 4'), "no order fits 'GATE/IU'"),
        (
            ('from = "127.0.0.1"', 'from = "localhost"'),
            "line 9: from cannot be used: it is 'localhost'; it must be",
        ),
        (('from = "127.0.0.1"', 'from = "::"'), "from cannot be used: it is '::'; it must be the address of one host"),
        (('from = "127.0.0.1"', 'from = "224.0.0.1"'), "from cannot be used"),
        (('from = "127.0.0.1"', 'from = "fe80::1%lo"'), "from cannot be used"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(path: Path, change: tuple[str, str], words: str) -> None:
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    with pytest.raises(RtmwError, match=words):
        read_relay(path)


def test_a_file_that_names_no_agent_is_refused(tmp_path: Path) -> None:
    for text in ("", '[relay]\nt1 = "8s"\n'):
        (tmp_path / "node.toml").write_text(text)
        with pytest.raises(RtmwError, match=r"node.toml.*: a relay needs agents: \[\[agent\]\]"):
            read_relay(tmp_path / "node.toml")


def test_an_address_of_ipv4_in_ipv6_is_where_the_system_says_that_the_agent_is(path: Path) -> None:
    path.write_text(path.read_text().replace('from = "127.0.0.1"', 'from = "::ffff:127.0.0.1"'))
    assert read_relay(path).agents[0].origin == "127.0.0.1"


def test_a_single_agent_in_one_bracket_is_named_by_what_it_should_be(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('[agent]\nname = "AODB"\n')
    with pytest.raises(RtmwError, match=r"line 1: agents are \[\[agent\]\], in two brackets"):
        read_relay(tmp_path / "node.toml")


def test_what_is_most_likely_not_meant_gets_an_advice(path: Path, relay: Relay) -> None:
    assert advice(relay) == {}
    text = path.read_text().replace('t1 = "8s"', "t1 = 5").replace("GATE/U/tell", "GTE/U")
    text = text.replace("agent:AODB", "agent:X")
    path.write_text(text)
    found = " ".join(f"{what}: {mend}" for what, mend in advice(read_relay(path)).items())
    assert "an agent gives up after T1·(N1+1) = 20 s, and the server after T2·(N2+1) = 20 s" in found
    assert "order to GTE: there is no agent" in found
    assert "peer agent:X: there is no agent" in found
