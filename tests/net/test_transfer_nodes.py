"""Two nodes with keys that were made by `rtmw node keys`: letters and files cross between their hosts."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import rtmw
from rtmw import Delivery, Level
from rtmw.net.session import Carrier, Hello
from rtmw.text.daemon_log import LINES_MOST
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.ports import free_port
from tests.transfer.between.pair import take, written


def keys(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "rtmw", "node", "keys", *words]
    subprocess.run(command, cwd=folder, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)


def two_signed(folder: Path) -> None:
    """As docs/links.md says it, from nothing."""
    for node in ("centre", "station"):
        (folder / node).mkdir()
    keys(folder / "centre", "init", "rtmw://plant/centre")
    keys(folder / "station", "request", "rtmw://plant/station")
    shutil.copy(folder / "station" / "keys" / "request.pem", folder / "centre")
    keys(folder / "centre", "sign", "request.pem")
    shutil.copy(folder / "centre" / "station.pem", folder / "station")
    keys(folder / "station", "install", "station.pem")


def started(host: Host, folder: Path, where: str) -> None:
    settings = (
        f'serve = ["transfer"]\ndata = "{folder}/data"\nname = "{folder.name}"\n[transfer]\nkeys = "keys"\n{where}\n'
    )
    rules = '[[allow]]\npeer = "rtmw://plant/station"\nsend = ["ingest@centre"]\n'
    (folder / "node.toml").write_text(settings + rules)
    host.start("--config", str(folder / "node.toml"))
    wait_until(lambda: is_served(host), "the core is there")


def is_served(host: Host) -> bool:
    try:
        rtmw.Sender("ready", domain=host.number).close()
    except rtmw.CoreNotRunning:
        return False
    return True


def test_two_nodes_with_keys_carry_letters_and_files_one_way_and_refuse_the_other(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    two_signed(tmp_path)
    centre, station = hosts
    port = free_port()
    started(centre, tmp_path / "centre", f'listen = "127.0.0.1:{port}"')
    started(station, tmp_path / "station", f'connect = ["127.0.0.1:{port}"]')
    data = written(tmp_path / "x", 300_000)
    (tmp_path / "inbox").mkdir()
    with (
        rtmw.Sender("gauge", domain=station.number) as sender,
        rtmw.Sender("desk", domain=centre.number) as desk,
        rtmw.Inbox("ingest", folder=tmp_path / "inbox", domain=centre.number) as inbox,
    ):
        sent = sender.send("ingest@centre", [rtmw.Part(b"head"), rtmw.File(tmp_path / "x")], delivery=Delivery.LOG)
        with take(inbox) as letter:
            assert letter.parts[0] == b"head"
            assert letter.files[0].read_bytes() == data
        assert sent.wait(Level.CONSUMED, PATIENCE)
        back = desk.send("ingest@station", b"x", delivery=Delivery.LOG)
        wait_until(lambda: back.state is rtmw.TransferState.REFUSED, "it is refused")
        assert "no rule is for this peer" in back.cause


# Proves G290.
def test_a_flood_of_peers_that_are_refused_is_sixty_lines_in_the_log(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    host, port = hosts[0], free_port()
    config = tmp_path / "node.toml"
    config.write_text(f'serve = ["transfer"]\ndata = "data"\n[transfer]\nlisten = "127.0.0.1:{port}"\n')
    host.start("--config", str(config))
    wait_until(lambda: is_served(host), "the core is there")

    async def flood() -> None:
        for number in range(2 * LINES_MOST):
            node = uuid4()
            hello = Hello(node, 1, capabilities=frozenset({"transfer", f"node=\x1b[31m{number}"}))
            async with Carrier(node, insecure=True, hello=hello) as carrier:
                with suppress(rtmw.SessionError):  # it is over before it is here
                    await (await carrier.connect("127.0.0.1", port)).over()

    asyncio.run(asyncio.wait_for(flood(), PATIENCE))
    host.stop()
    lines = [line for line in host.said.splitlines() if "calls itself" in line]
    assert len(lines) == LINES_MOST
    assert f"{LINES_MOST + 1} more lines of this kind within a minute" in lines[-1]
    assert "\x1b" not in host.said
