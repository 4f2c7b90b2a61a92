"""A topic that moves from a link to DDS and back, by SIGHUP: of what is published meanwhile nothing is lost untold."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.link.hosts import free_port
from tests.net.test_books import Stream

RULE = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\n'
BY_DDS = "[link]\ninsecure = true\n"


class Mover(Host):
    """A host whose node has a link, or none, as its file says."""

    def __init__(self, dds_domain: int, folder: Path, link: str) -> None:
        super().__init__(free_number(), dds_domain, folder)
        self._file, self._link = folder / f"mover_{self.number}.toml", f"[link]\n{link}\nlease = 1.0\n{RULE}"

    def begin(self) -> None:
        self._file.write_text(self._link)
        self.start("--config", str(self._file), "--handover", "1")

    def move(self, way: str) -> None:
        """To another way, `link` or `DDS`, and wait until the node carries its domain anew."""
        before = self.said.count("is carried on")
        self._file.write_text(BY_DDS if way == "DDS" else self._link)
        self.node.send_signal(signal.SIGHUP)
        wait_until(lambda: self.said.count("is carried on") > before, "the node does not begin anew")


@pytest.fixture
def movers(dds_domain: int, tmp_path: Path) -> Iterator[tuple[Mover, Mover]]:
    port = free_port()
    pair = (
        Mover(dds_domain, tmp_path, f'listen = "127.0.0.1:{port}"'),
        Mover(dds_domain, tmp_path, f'connect = ["127.0.0.1:{port}"]'),
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
