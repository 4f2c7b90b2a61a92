"""A topic that moves from a link to DDS and back, by SIGHUP: of what is published meanwhile nothing is lost untold."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_books import Stream
from tests.ports import free_port

RULE = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\n'
BY_DDS = "[link]\ninsecure = true\n"


class Mover(Host):
    """A host whose node has a link, or none, as its file says."""

    def __init__(self, dds_domain: int, folder: Path, link: str, seconds: float) -> None:
        """`seconds`: for which a link may be cut, and for which RELIABLE topics wait for the next node."""
        super().__init__(free_number(), dds_domain, folder)
        self._file, self._seconds = folder / f"mover_{self.number}.toml", seconds
        self._link = f"[link]\n{link}\nlease = {seconds}\n{RULE}"

    def begin(self) -> None:
        self._file.write_text(self._link)
        self.start("--config", str(self._file), "--handover", str(self._seconds))

    def move(self, way: str) -> None:
        """To another way, `link` or `DDS`, and wait until the node carries its domain anew."""
        before = self.said.count("is carried on")
        self._file.write_text(BY_DDS if way == "DDS" else self._link)
        self.node.send_signal(signal.SIGHUP)
        wait_until(lambda: self.said.count("is carried on") > before, "the node does not begin anew")


@pytest.fixture(params=[1.0], ids=["short"])
def movers(dds_domain: int, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Mover, Mover]]:
    port = free_port()
    pair = (
        Mover(dds_domain, tmp_path, f'listen = "127.0.0.1:{port}"', request.param),
        Mover(dds_domain, tmp_path, f'connect = ["127.0.0.1:{port}"]', request.param),
    )
    for host in pair:
        host.begin()
    yield pair
    for host in pair:
        host.end()


class Steady(threading.Thread):
    """Publishes on all streams until it is ended."""

    def __init__(self, streams: list[Stream]) -> None:
        super().__init__()
        self._streams, self._end = streams, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.wait(0.005):
            for stream in self._streams:
                stream.send()

    def end(self) -> None:
        self._end.set()
        self.join()


@pytest.mark.parametrize("moves", [0, 1], ids=["the publisher's", "the subscriber's"])
# Proves G273.
def test_a_topic_that_moves_from_a_link_to_dds_and_back_loses_nothing_untold(
    movers: tuple[Mover, Mover], moves: int
) -> None:
    pairs = [(Reliability.RELIABLE, Reliability.RELIABLE), (Reliability.ADAPTIVE, Reliability.ADAPTIVE)]
    streams = [Stream(*movers, *pair) for pair in pairs]
    wait_until(lambda: all([stream.reaches() for stream in streams]), "no streams")
    before = [(stream.sent, len(stream.got), stream.told()) for stream in streams]
    for way in ("DDS", "link"):
        steady = Steady(streams)
        movers[moves].move(way)
        steady.end()
        wait_until(lambda: all([stream.reaches() for stream in streams]), f"no streams over {way}")
        for stream, (sent, got, told) in zip(streams, before, strict=True):
            lost = stream.sent - sent - (len(stream.got) - got)
            assert lost == stream.told() - told, f"{stream.publisher.topic}, now over {way}"
            assert len(stream.got) == len({*stream.got})
    for stream in streams:
        stream.publisher.close()
        stream.subscriber.close()


@pytest.mark.parametrize("movers", [2 * PATIENCE], indirect=True, ids=["long"])
@pytest.mark.parametrize("is_steady", [True, False], ids=["in a stream", "in silence"])
# Proves G274.
def test_a_publisher_waits_no_more_for_a_node_that_has_moved_from_its_link_to_dds(
    movers: tuple[Mover, Mover], is_steady: bool
) -> None:
    """Neither for the lease of the link, nor for as long as RELIABLE topics wait for the next node."""
    stream = Stream(*movers, Reliability.RELIABLE, Reliability.RELIABLE)
    wait_until(stream.reaches, "no stream")
    before = (stream.sent, len(stream.got), stream.told())
    steady = Steady([stream] if is_steady else [])
    movers[1].move("DDS")
    steady.end()
    stream.send(1000)  # more than the link's subscription has room for
    wait_until(stream.reaches, "no stream over DDS")
    lost = stream.sent - before[0] - (len(stream.got) - before[1])
    assert lost == stream.told() - before[2]
    assert len(stream.got) == len({*stream.got})
    stream.publisher.close()
    stream.subscriber.close()
