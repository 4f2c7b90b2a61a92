"""Network namespaces as hosts: each has one interface, and all hang on one bridge, in a namespace of its own.

The programs of a host run anywhere, for they meet in shared memory; only its node runs inside. What happens to the
network is what happens to cables: a port of the bridge goes down, or a host throws away what it would send to another.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path

from tests.net.hosts import Place

INTERFACE, SECOND = "eth0", "eth1"


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def run_ip(*words: str) -> None:
    run("ip", *words)


def _rate(bits_per_second: int) -> list[str]:
    """Of a tbf. A burst makes up for a timer that comes late: with one of a single packet, a line of 100 Mbit/s carried
    so much less while something waited that a queue did not become shorter."""
    burst = max(1600, bits_per_second // 8000)  # bytes: what a millisecond takes, a datagram at least
    return ["rate", f"{bits_per_second}bit", "burst", str(burst)]


_networks = count()


class Network:
    """So many hosts at one bridge. `close` removes all of it."""

    def __init__(self, hosts: int, mtu: int = 1500) -> None:
        self._prefix, self._made = f"rtmw-{os.getpid()}-{next(_networks)}-", list[str]()
        self._folders = list[Path]()
        try:
            self._build(hosts, mtu)
        except OSError:
            self.close()
            raise

    def _build(self, hosts: int, mtu: int) -> None:
        self._add("bridge")
        run_ip(
            "-n",
            self._name("bridge"),
            "link",
            "add",
            "bridge",
            "mtu",
            str(mtu),
            "type",
            "bridge",
            "mcast_snooping",
            "0",
        )
        run_ip("-n", self._name("bridge"), "link", "set", "bridge", "up")
        for host in range(hosts):
            self._add(str(host))
            self._plug(host, mtu)

    def _add(self, name: str) -> None:
        run_ip("netns", "add", self._name(name))
        self._made.append(self._name(name))

    def _name(self, name: str) -> str:
        return self._prefix + name

    def _plug(self, host: int, mtu: int) -> None:
        inside, bridge = self._name(str(host)), self._name("bridge")
        end = ["peer", "name", f"port{host}", "netns", bridge, "mtu", str(mtu)]
        run_ip("-n", inside, "link", "add", INTERFACE, "mtu", str(mtu), "type", "veth", *end)
        run_ip("-n", bridge, "link", "set", f"port{host}", "master", "bridge", "up")
        run_ip("-n", inside, "link", "set", "lo", "up")
        run_ip("-n", inside, "addr", "add", f"{self.address(host)}/24", "dev", INTERFACE)
        run_ip("-n", inside, "link", "set", INTERFACE, "up")

    def plug_second(self, host: int) -> None:
        """A second interface, at a second bridge."""
        inside, bridge = self._name(str(host)), self._name("bridge")
        with suppress(OSError):  # it is there for the first of the hosts already
            run_ip("-n", bridge, "link", "add", "second", "type", "bridge", "mcast_snooping", "0")
        run_ip("-n", bridge, "link", "set", "second", "up")
        run_ip("-n", inside, "link", "add", SECOND, "type", "veth", "peer", "name", f"other{host}", "netns", bridge)
        run_ip("-n", bridge, "link", "set", f"other{host}", "master", "second", "up")
        run_ip("-n", inside, "addr", "add", f"10.78.0.{host + 1}/24", "dev", SECOND)
        run_ip("-n", inside, "link", "set", SECOND, "up")

    def ip(self, host: int, *words: str) -> None:
        """The command `ip`, as a host."""
        run_ip("-n", self._name(str(host)), *words)

    @staticmethod
    def address(host: int) -> str:
        return f"10.77.0.{host + 1}"

    def place(self, host: int, *peers: int) -> Place:
        """Where the node of a host runs. `peers`: hosts that it talks to by their addresses, without multicast."""
        named = ["--peers", *(self.address(peer) for peer in peers)] if peers else []
        enter = ("ip", "netns", "exec", self._name(str(host)))
        return Place(enter, ("--interface", INTERFACE, *named))

    def name_hosts(self, host: int, names: dict[str, str]) -> None:
        """Names and their addresses, as programs find them that run inside from the first call on."""
        file = Path("/etc/netns", self._name(str(host)), "hosts")
        if not file.exists():
            file.parent.mkdir(parents=True)
            self._folders.append(file.parent)
        file.write_text("".join(f"{address} {name}\n" for name, address in names.items()))

    def cut(self, host: int) -> None:
        """Pull the cable of a host."""
        run_ip("-n", self._name("bridge"), "link", "set", f"port{host}", "down")

    def heal(self, host: int) -> None:
        run_ip("-n", self._name("bridge"), "link", "set", f"port{host}", "up")

    def mute(self, host: int, to: int) -> None:
        """Nothing that a host sends to the address of another leaves any more; the other way stays."""
        run_ip("-n", self._name(str(host)), "route", "add", "blackhole", f"{self.address(to)}/32")

    def unmute(self, host: int, to: int) -> None:
        run_ip("-n", self._name(str(host)), "route", "del", "blackhole", f"{self.address(to)}/32")

    def sent(self, host: int, interface: str = INTERFACE) -> int:
        """Bytes that a host has sent through an interface, of whatever protocol."""
        command = ("ip", "-n", self._name(str(host)), "-s", "-j", "link", "show", "dev", interface)
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return int(json.loads(told)[0]["stats64"]["tx"]["bytes"])

    def narrow(self, host: int, bits_per_second: int) -> None:
        """What a host sends leaves no faster than this; more waits on the host itself."""
        limits = [*_rate(bits_per_second), "limit", "10000000"]
        run(
            "ip", "netns", "exec", self._name(str(host)), "tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *limits
        )

    def narrow_behind(self, host: int, bits_per_second: int, seconds: float) -> None:
        """What comes to a host comes no faster than this, and what is more waits at the bridge, for so long at most."""
        limits = [*_rate(bits_per_second), "latency", f"{int(1000 * seconds)}ms"]
        enter = ("ip", "netns", "exec", self._name("bridge"))
        run(*enter, "tc", "qdisc", "add", "dev", f"port{host}", "root", "tbf", *limits)

    def close(self) -> None:
        while self._folders:
            shutil.rmtree(self._folders.pop())
        while self._made:
            with suppress(OSError):
                run_ip("netns", "del", self._made.pop())


@lru_cache
def obstacle() -> str | None:
    """Why there are no namespaces on this machine; None: there are."""
    if shutil.which("ip") is None:
        return "network namespaces need `ip` (Debian: iproute2)"
    try:
        Network(1).close()
    except OSError as error:
        return f"network namespaces cannot be made here: {error}"
    return None


@lru_cache
def obstacle_to_narrowing() -> str | None:
    """Why no line can be made slow on this machine, if there are namespaces; None: it can."""
    network = Network(1)
    try:
        network.narrow(0, 1_000_000)
    except OSError as error:
        return f"slow lines need `tc` (Debian: iproute2) and a kernel with its tbf: {error}"
    finally:
        network.close()
    return None
