"""How long two nodes with keys take, beside two without: `python -m tests.net.link.found_speed ROUNDS`, as root.

Two network namespaces; both nodes are started at once, and name an interface alone. Rounds with keys and without them
alternate. Printed are the medians, and their ratio: until a kept message has crossed, and half a round trip of 1 KiB.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host
from tests.net.link.nodes import ALL
from tests.net.namespaces import Network
from tests.net.security.site import Site

RELIABLE = Reliability.RELIABLE
TURNS, WARM = 600, 100


def measure(network: Network, folder: Path, files: list[Path] | None) -> tuple[float, float]:
    """Seconds until a kept message has crossed, and of half a round trip. `files`: of settings with keys."""
    dds = free_number()
    with ExitStack() as stack:
        hosts = [Host(free_number(with_dds=False), dds, folder, network.place(at)) for at in (0, 1)]
        for host in hosts:
            stack.callback(host.end)
        out, back = (
            stack.enter_context(
                rtmw.Publisher(topic, reliability=RELIABLE, history=1, max_blocking=PATIENCE, domain=host.domain)
            )
            for topic, host in zip(("there", "back"), hosts, strict=True)
        )
        taker, answer = (
            stack.enter_context(rtmw.Subscriber(topic, reliability=RELIABLE, history=1, domain=host.domain))
            for topic, host in zip(("there", "back"), hosts[::-1], strict=True)
        )
        assert out.publish(b"first")
        begun = time.monotonic()
        for at, host in enumerate(hosts):
            host.launch(*(["--config", str(files[at])] if files else []))
        assert taker.receive(timeout=PATIENCE).value == b"first"
        first, turns = time.monotonic() - begun, list[float]()
        assert back.wait_for_subscribers(1, timeout=PATIENCE)
        for _ in range(TURNS):
            begun = time.perf_counter()
            out.publish(bytes(1024))
            back.publish(taker.receive(timeout=PATIENCE).value)
            answer.receive(timeout=PATIENCE)
            turns.append((time.perf_counter() - begun) / 2)
        return first, median(turns[WARM:])


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, network = Path(name), Network(2)
        stack.callback(network.close)
        site, files = Site(folder / "site"), [folder / "0.toml", folder / "1.toml"]
        for at, file in enumerate(files):
            file.write_text(f'[link]\nkeys = "{site.keys(f"rtmw://plant/n{at}")}"\n{ALL}')
        found = [(measure(network, folder, None), measure(network, folder, files)) for _ in range(rounds)]
        for at, what in enumerate(("until the first message", "half a round trip of 1 KiB")):
            dds, keys = (median(pair[with_keys][at] for pair in found) for with_keys in (0, 1))
            print(f"{what}: without keys {1e3 * dds:.3g} ms, with keys {1e3 * keys:.3g} ms, ratio {keys / dds:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
