"""The table of rights: beside a plain oracle, at its limits, and with every mistake that a file can have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.net.security import RulesError
from rtmw.net.security.rules import Rule, RuleTable, Verdict
from rtmw.net.security.tables import Link, read_rules, read_tables
from rtmw.settings import SettingsFile

PRESS = "rtmw://plant/press-7"
EXAMPLE = """\
[link]
keys = "keys"
revoked = ["3F:a2", "01"]

[[allow]]
peer = "rtmw://plant/press-*"
publish = ["{node}/*"]
subscribe = ["alarm/*"]
deny = ["*/secret"]
max_priority = 5
max_size = "64M"
max_rate = "10M"

[[allow]]   # for all
peer = "*"
subscribe = [
    "clock",
    "news/*",
]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(EXAMPLE)
    return path


def judged(file: Path, *words: object) -> Verdict:
    return read_rules(file).judge(*words)  # type: ignore[arg-type]


def test_a_verdict_names_the_rule_by_file_and_line_and_gives_its_ceilings(file: Path) -> None:
    verdict = judged(file, PRESS, "publish", "press-7/speed")
    assert (verdict.allowed, verdict.cause, verdict.place) == (True, "", f"{file}, line 5")
    assert (verdict.max_priority, verdict.max_size, verdict.max_rate) == (5, 64 << 20, 10 << 20)
    assert re.fullmatch(r"[0-9a-f]{12}", verdict.version)
    assert judged(file, PRESS, "subscribe", "news/a").place == f"{file}, line 14"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ((PRESS, "publish", "press-8/speed"), "subject"),
        ((PRESS, "publish", "alarm/fire"), "subject"),
        ((PRESS, "publish", "press-7/secret"), "deny"),
        ((PRESS, "subscribe", "alarm/secret"), "deny"),
        ((PRESS, "publish", "press-7/speed", 6), "priority"),
        ((PRESS, "publish", "press-7/speed", 5, (64 << 20) + 1), "size"),
        ((PRESS, "publish", "press-7/*"), "pattern"),
        ((PRESS, "subscribe", "rtmw/node"), "own"),
        (("rtmw://plant/other", "publish", "other/x"), "subject"),
        (("uid:1000", "publish", "press-7/x"), "subject"),
    ],
)
def test_what_is_not_allowed_is_denied_with_its_cause(file: Path, words: tuple[object, ...], cause: str) -> None:
    verdict = judged(file, *words)
    assert (verdict.allowed, verdict.cause) == (False, cause)
    assert verdict.why


def test_without_a_rule_for_the_peer_nothing_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("lease = 5\n")
    assert judged(path, PRESS, "publish", "x").cause == "peer"


def test_no_name_of_a_node_can_widen_a_rule(file: Path) -> None:
    for name in ("rtmw://plant/press-*", "rtmw://plant/press-[a-z]", "rtmw://plant/press-?"):
        assert not judged(file, name, "publish", "press-8/speed").allowed


def test_a_verb_that_there_is_not_is_a_mistake_of_the_program(file: Path) -> None:
    with pytest.raises(ValueError, match="there is no verb 'fly'; there are publish, subscribe"):
        judged(file, PRESS, "fly", "x")


def test_the_version_follows_the_rules_and_nothing_else(file: Path) -> None:
    before = read_rules(file).version
    file.write_text("# a comment\n\nlease = 3\n" + EXAMPLE)
    assert read_rules(file).version == before
    assert judged(file, PRESS, "publish", "press-7/x").place == f"{file}, line 8"
    file.write_text(EXAMPLE.replace('"64M"', '"65M"'))
    assert read_rules(file).version != before


def test_the_link_table_is_read(file: Path) -> None:
    assert read_tables(SettingsFile.read(file))["link"] == Link(file.parent / "keys", frozenset({0x3FA2, 1}))


RULE = '[[allow]]\npeer = "*"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[allow]]\npublish = ["a"]\n', "line 1: a rule needs peer"),
        (RULE, "line 1: the rule allows and denies nothing"),
        (RULE + 'publsih = ["a"]\n', "line 3: a rule has no publsih; did you mean publish?"),
        (RULE + "xyz = 1\n", "line 3: a rule has no xyz; there are peer, publish"),
        (RULE + 'publish = "a"\n', "line 3: publish cannot be used: it is 'a'; it must be a list"),
        (RULE + "publish = []\n", "line 3: publish cannot be used: it is empty"),
        (RULE + "publish = [3]\n", "line 3: publish cannot be used: it has 3"),
        (RULE + 'publish = [""]\n', "line 3: publish cannot be used: it has ''"),
        (RULE + '\ndeny = [\n  "{nod}/a"]\n', "line 4: deny cannot be used: '{nod}/a' has {nod}; there is {node} only"),
        (RULE + 'publish = ["a"]\nmax_priority = 8\n', "line 4: max_priority cannot be used: it is 8"),
        (RULE + 'publish = ["a"]\nmax_priority = true\n', "line 4: max_priority cannot be used: it is True"),
        (RULE + 'publish = ["a"]\nmax_size = "much"\n', "line 4: max_size cannot be used: 'much' is not a size"),
        (RULE + 'publish = ["a"]\nmax_size = 0\n', "line 4: max_size cannot be used: 0 is not a size above 0"),
        (RULE + 'publish = ["a"]\nmax_rate = 1.5\n', "line 4: max_rate cannot be used: 1.5 is not a size"),
        ('[[allow]]\npeer = "plant/hub"\ndeny = ["a"]\n', "line 2: peer cannot be used: 'plant/hub' fits no peer"),
        ('[[allow]]\npeer = 3\ndeny = ["a"]\n', "line 2: peer cannot be used: it has 3"),
        ('\n[allow]\npeer = "*"\n', "line 2: rules are [[allow]], in two brackets"),
        ("allow = 3\n", "line 1: rules are [[allow]], in two brackets"),
        ("\nlink = 3\n", "line 2: link must be a table"),
        ("[link]\nkey = 'a'\n", "line 2: [link] has no key; there are keys, revoked"),
        ("[link]\nkeys = 3\n", "line 2: keys cannot be used: it is 3"),
        ("[link]\nrevoked = '3f'\n", "line 2: revoked cannot be used: it is '3f'; it must be a list"),
        ("[link]\nrevoked = ['xyz']\n", "line 2: revoked cannot be used: 'xyz' is no serial number"),
        ("[link]\nrevoked = [12]\n", "line 2: revoked cannot be used: 12 is no serial number"),
        ("[[allow]\n", "not TOML: "),
        ('[[allow]]\npeer="*"\ndeny=["a"]\n[[allow]]\npeer="*"\ndeny=7\n', "line 6: deny cannot be used: it has 7"),
        ('x = """\n[[allow]]\n"""\n[[allow]]\npeer = 1\n', "line 5: peer cannot be used"),
        ('allow = [{peer = "*"}]\n', "line 1: the rule allows and denies nothing"),
    ],
)
def test_each_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(RulesError) as caught:
        read_rules(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="No such file"):
        read_rules(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RulesError, match="not TOML"):
        read_rules(tmp_path / "binary.toml")


NODES = ("a", "b")
SUBJECTS = ("a/x", "b/x", "x", "a/s", "news")
PATTERNS = ("{node}/*", "a/*", "*", "x", "*/s", "news")
PEERS = ("rtmw://p/a", "rtmw://p/*", "*", "uid:7")
VERBS = ("publish", "subscribe", "send")
some = st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple)
rules = st.builds(
    Rule,
    peers=st.lists(st.sampled_from(PEERS), min_size=1, max_size=2).map(tuple),
    allows=st.dictionaries(st.sampled_from(VERBS), some, max_size=2),
    deny=some,
    max_priority=st.integers(0, 7),
    max_size=st.sampled_from([0, 10, 100]),
)


def plainly(table: list[Rule], asker: tuple[str, str], verb: str, subject: str, ask: tuple[int, int]) -> bool:
    """The rule of rights without patterns: each of the few that occur is spelled out."""
    name, node = asker
    means = {
        "{node}/*": {s for s in SUBJECTS if node and s.startswith(f"{node}/")},
        "a/*": {"a/x", "a/s"},
        "*": set(SUBJECTS),
        "x": {"x"},
        "*/s": {"a/s"},
        "news": {"news"},
    }
    whom = {"rtmw://p/a": {"rtmw://p/a"}, "rtmw://p/*": {"rtmw://p/a", "rtmw://p/b"}, "uid:7": {"uid:7"}, "*": {name}}
    mine = [rule for rule in table if any(name in whom[one] for one in rule.peers)]
    if any(subject in means[one] for rule in mine for one in rule.deny):
        return False
    for rule in mine:
        if any(subject in means[one] for one in rule.allows.get(verb, ())):
            return ask[0] <= rule.max_priority and (rule.max_size == 0 or ask[1] <= rule.max_size)
    return False


@given(
    st.lists(rules, max_size=4),
    st.sampled_from([("rtmw://p/a", "a"), ("rtmw://p/b", "b"), ("uid:7", ""), ("rtmw://q/a", "a")]),
    st.sampled_from(VERBS),
    st.sampled_from(SUBJECTS),
    st.tuples(st.integers(0, 7), st.sampled_from([0, 10, 11, 101])),
)
def test_verdicts_are_those_of_a_plain_oracle(
    table: list[Rule], asker: tuple[str, str], verb: str, subject: str, ask: tuple[int, int]
) -> None:
    verdict = RuleTable(tuple(table)).judge(asker[0], verb, subject, *ask)
    assert verdict.allowed is plainly(table, asker, verb, subject, ask)
    assert verdict.allowed is (verdict.cause == "")
