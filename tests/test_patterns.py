"""Patterns of topics, with whole levels of MQTT; and names, in which these are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from paho.mqtt.client import topic_matches_sub

import rtmw
from rtmw.net.security.rules import make_rule
from rtmw.net.settings import Settings, make_settings
from rtmw.player.tracks import Choice
from rtmw.text.patterns import check_pattern, is_meant, is_pattern, topics_of
from tests.bus import eventually

pytestmark = pytest.mark.usefixtures("domain_id")

WILD = ("#", "+", "dev/#", "plant/+/speed", "+/a", "/#")
NAMES = ("a#b", "a+b/c", "#1/speed", "c++", "++", "a/##")


@pytest.mark.parametrize("opened", [rtmw.Publisher, rtmw.Subscriber])
@pytest.mark.parametrize("topic", WILD)
# Proves G42.
def test_a_whole_level_that_is_a_wildcard_of_mqtt_is_no_name_and_the_error_says_what_to_use(
    opened: Callable[[str], object], topic: str
) -> None:
    with pytest.raises(rtmw.TopicNameError, match=r"whole level `#` or `[+]`.* rtmw.PatternSubscriber.* rtmw.Recorder"):
        opened(topic)


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("topic", NAMES)
def test_a_level_that_only_has_such_a_letter_is_a_name(topic: str) -> None:
    with rtmw.Subscriber(topic) as subscriber, rtmw.Publisher(topic) as publisher:
        publisher.publish(b"x")
        assert subscriber.receive(10).value == b"x"


LEVEL = some.text("ab$ .", max_size=3)
TOPIC = some.lists(LEVEL, min_size=1, max_size=5).map("/".join).filter(bool)


@given(TOPIC, some.lists(some.one_of(LEVEL, some.just("+")), min_size=1, max_size=5), some.booleans())
@example("a", ["a"], True)
@example("$a/b", ["+", "b"], False)
@example("a//b", ["a", "+", "b"], False)
# Proves G43.
def test_whole_levels_of_mqtt_mean_what_paho_says(topic: str, levels: list[str], is_open: bool) -> None:
    wanted = "/".join([*levels, "#"] if is_open else levels)
    if wanted:
        assert is_meant(topic, wanted) is topic_matches_sub(wanted, topic)
        assert is_pattern(wanted) is (is_open or "+" in levels)


@pytest.mark.parametrize(
    ("topic", "wanted", "answer"),
    [
        ("plant/7/speed", "plant/+/sp*", True),
        ("plant/7/8/speed", "plant/+/sp*", False),
        ("plant/7/8/speed", "plant/*/sp*", True),
        ("pump1/a/b", "pump[12]/#", True),
        ("pump3/a", "pump[12]/#", False),
        ("c++", "c++", True),
        ("c+", "c++", False),
        ("a#b/c", "a#b/+", True),
    ],
)
def test_levels_of_mqtt_and_patterns_of_the_shell_stand_in_one_pattern(topic: str, wanted: str, answer: bool) -> None:
    assert is_meant(topic, wanted) is answer


def test_topics_of_rtmw_itself_are_meant_by_name_only() -> None:
    for wanted in ("#", "*", "*/node"):
        assert not topics_of(wanted).take("rtmw/node")
    for wanted in ("rtmw/#", "rtmw/+", "rtmw/n*"):
        with pytest.raises(rtmw.TopicNameError, match="are meant by name"):
            topics_of(wanted)
        assert topics_of("*", unwanted=wanted)
    assert topics_of("rtmw/node").take("rtmw/node")


@pytest.mark.parametrize("wanted", ["a[", "[z-a]", "x[]", "[!]", "a*" * 192, "é" * 96 + "/#", "[ab]" * 192])
def test_a_pattern_that_no_name_can_ever_match_is_refused(wanted: str) -> None:
    with pytest.raises(rtmw.TopicNameError, match="means no topic"):
        check_pattern(wanted)


@pytest.mark.parametrize(
    "wanted", ["[a-z]", "[!a]*", "[]a]", "a]", "a" * 191, "a" * 191 + "/#", "[ab]" * 191, "*" * 250]
)
def test_a_pattern_that_some_name_matches_is_taken(wanted: str) -> None:
    assert check_pattern(wanted) == wanted


@pytest.mark.parametrize("wanted", ["\ud800", "a/#/b", "#/a", "a/#/+", "", "a\nb", "\x00", 7, None])
def test_what_is_no_pattern_is_refused_with_what_one_looks_like(wanted: Any) -> None:
    with pytest.raises(rtmw.TopicNameError, match=r"is no pattern.*`#`|is no pattern.*'pump/\*'"):
        check_pattern(wanted)


@pytest.mark.parametrize("options", [{"topics": "a/#/b"}, {"topics": ["a", "#/b"]}, {"topics": "*", "exclude": "#/a"}])
def test_a_recorder_refuses_what_is_no_pattern(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(rtmw.TopicNameError, match="has to be the last level"):
        rtmw.Recorder(**options, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_recorder_and_a_replay_take_levels_of_mqtt(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("dev/+", tmp_path / "run", domain=domain) as recorder:
        for topic in ("dev/1", "dev/1/2", "dev"):
            rtmw.Publisher(topic, domain=domain, history=1).publish(b"x")
        eventually(lambda: recorder.stats().messages)
    (path,) = (tmp_path / "run").glob("*.mcap")
    assert list(rtmw.Recording(path).topics()) == ["dev/1"]
    with rtmw.Replay(tmp_path / "run", topics="dev/#", domain=domain) as replay:
        assert replay.run().published == 1


@pytest.mark.parametrize("setting", ["topics_out", "topics_in"])
def test_a_node_takes_levels_of_mqtt_and_refuses_what_is_no_pattern(setting: str) -> None:
    with pytest.raises(rtmw.RtmwError, match=f"{setting}.*has to be the last level"):
        make_settings(None, {setting: ["dev/#/x"]})
    settings = make_settings(None, {setting: ["dev/#"]})
    may = Settings.leaves if setting == "topics_out" else Settings.enters
    assert [topic for topic in ("dev", "dev/1/2", "device") if may(settings, topic)] == ["dev", "dev/1/2"]


# Proves G43.
def test_rights_take_levels_of_mqtt_and_refuse_what_is_no_pattern() -> None:
    rule = make_rule({"peer": "rtmw://plant/a", "publish": ["dev/+/{node}"], "deny": ["dev/7/#"]}, str, "here")
    assert rule.allows_to("publish", "dev/1/a", "a")
    assert not rule.allows_to("publish", "dev/1/2/a", "a")
    assert rule.denies("dev/7", None)
    with pytest.raises(rtmw.RtmwError, match=r"deny cannot be used: .*has to be the last level"):
        make_rule({"peer": "rtmw://plant/a", "deny": ["dev/#/x"]}, str, "here")


def test_a_replay_refuses_them_as_new_names_of_topics() -> None:
    with pytest.raises(rtmw.TopicNameError, match="is a wildcard"):
        Choice(remap={"a": "dev/#"}).check(["a"])
