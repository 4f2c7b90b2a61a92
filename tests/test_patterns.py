"""Names of topics: wildcards of MQTT are refused where a program would wait for ever for a topic of that name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.net.settings import make_settings
from rtmw.player.tracks import Choice

pytestmark = pytest.mark.usefixtures("domain_id")

WILD = ("#", "+", "dev/#", "plant/+/speed", "+/a", "/#")
NAMES = ("a#b", "a+b/c", "#1/speed", "c++", "++", "a/##")


@pytest.mark.parametrize("opened", [rtmw.Publisher, rtmw.Subscriber])
@pytest.mark.parametrize("topic", WILD)
def test_a_whole_level_that_is_a_wildcard_of_mqtt_is_no_name_and_the_error_says_what_to_use(
    opened: Callable[[str], object], topic: str
) -> None:
    with pytest.raises(rtmw.TopicNameError, match=r"whole level `#` or `[+]`.* rtmw.WaitSet.* rtmw.Recorder"):
        opened(topic)


def test_the_error_translates_wildcards_to_a_pattern_of_rtmw() -> None:
    with pytest.raises(rtmw.TopicNameError, match=r"takes 'plant/\*/speed'$"):
        rtmw.Subscriber("plant/+/speed")


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("topic", NAMES)
def test_a_level_that_only_has_such_a_letter_is_a_name(topic: str) -> None:
    with rtmw.Subscriber(topic) as subscriber, rtmw.Publisher(topic) as publisher:
        publisher.publish(b"x")
        assert subscriber.receive(10).value == b"x"


@pytest.mark.parametrize("options", [{"topics": "dev/#"}, {"topics": ["a", "dev/+"]}, {"topics": "*", "exclude": "#"}])
def test_a_recorder_refuses_them_among_its_topics(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(rtmw.TopicNameError, match="wildcard of MQTT"):
        rtmw.Recorder(**options, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["topics_out", "topics_in"])
def test_a_node_refuses_them_among_the_topics_that_it_carries(setting: str) -> None:
    with pytest.raises(rtmw.RtmwError, match=f"{setting}.*wildcard of MQTT"):
        make_settings(None, {setting: ["dev/#"]})


def test_a_replay_refuses_them_as_new_names_of_topics() -> None:
    with pytest.raises(rtmw.TopicNameError, match="wildcard of MQTT"):
        Choice(remap={"a": "dev/#"}).check(["a"])
