"""A node that begins anew as the same process hears each signal, whenever that comes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.child import Child, Spawn
from tests.net.hosts import Host, wait_until

NODE = """
    import logging, os, signal, sys
    from rtmw.cli import main

    def interrupt(record):
        if "{at}" in record.getMessage() and "{image}" == os.environ.get("RTMW_NODE_ANEW", "first"):
            os.kill(os.getpid(), signal.{name})
        return True

    logging.getLogger("rtmw.node").addFilter(interrupt)
    if "RTMW_NODE_ANEW" in os.environ:
        logging.getLogger("rtmw.node").warning("the new image has begun")
    sys.exit(main(["node", "--domain", "{number}", "--dds-domain", "{dds_domain}", "--config", "{file}"]))
"""
"""A node that gets a signal from itself the moment that it says something."""

BEGINS = {"the old image has closed its loop": ("begins anew", "first"), "the new one starts": ("has begun", "1")}


def node_that_begins_anew(host: Host, spawn: Spawn, folder: Path, where: str, name: str) -> Child:
    file, (at, image) = folder / "node.toml", BEGINS[where]
    file.write_text('peers = ["127.0.0.1"]\n')
    source = NODE.format(at=at, image=image, name=name, number=host.number, dds_domain=host.dds_domain, file=file)
    child = spawn(source)
    wait_until(lambda: "is carried on" in child.stderr, "the node does not start")
    file.write_text('peers = ["127.0.0.1", "127.0.0.2"]\n')
    child.signal(signal.SIGHUP)
    return child


@pytest.mark.parametrize("where", BEGINS)
# Proves G268.
def test_sighup_while_a_node_begins_anew_is_heard_by_the_new_image(
    hosts: tuple[Host, Host], spawn: Spawn, tmp_path: Path, where: str
) -> None:
    child = node_that_begins_anew(hosts[0], spawn, tmp_path, where, "SIGHUP")
    wait_until(lambda: not child.alive or child.stderr.count("is carried on") == 2, "it does not begin anew")
    assert child.alive, child.stderr
    wait_until(lambda: "settings read again" in child.stderr.split("begins anew")[1], "SIGHUP is not heard")
    child.signal(signal.SIGTERM)
    assert child.wait() == 0


@pytest.mark.parametrize("where", BEGINS)
# Proves G268.
def test_sigterm_while_a_node_begins_anew_ends_the_new_image_in_order(
    hosts: tuple[Host, Host], spawn: Spawn, tmp_path: Path, where: str
) -> None:
    child = node_that_begins_anew(hosts[0], spawn, tmp_path, where, "SIGTERM")
    assert child.wait(60.0) == 0, child.stderr


FORGETS = """
    import logging, sys
    from pathlib import Path
    from rtmw.cli import main

    def forget(record):
        if "begins anew" in record.getMessage():
            Path("{file}").write_text("")
        return True

    logging.getLogger("rtmw.node").addFilter(forget)
    sys.exit(main(["node", "--domain", "{number}", "--dds-domain", "{dds_domain}", "--config", "{file}"]))
"""
"""A node whose settings file is emptied just before it replaces itself."""


# Proves G231.
def test_a_node_that_begins_anew_goes_on_with_the_settings_that_it_took_in_whatever_became_of_the_file(
    hosts: tuple[Host, Host], spawn: Spawn, tmp_path: Path
) -> None:
    host, file = hosts[0], tmp_path / "node.toml"
    text = 'peers = ["127.0.0.1"{}]\ntopics_out = ["a/*"]\n[[allow]]\npeer = "*"\npublish = ["*"]\n'
    file.write_text(text.format(""))
    child = spawn(FORGETS.format(number=host.number, dds_domain=host.dds_domain, file=file))
    wait_until(lambda: "is carried on" in child.stderr, "the node does not start")
    file.write_text(text.format(', "127.0.0.2"'))
    child.signal(signal.SIGHUP)
    wait_until(lambda: not child.alive or child.stderr.count("is carried on") == 2, "it does not begin anew")
    assert child.alive, child.stderr
    assert file.read_text() == ""
    wait_until(lambda: host.info()["pid"] == child.pid and host.info()["rules"]["number"] == 1, "the rules are gone")
    child.signal(signal.SIGHUP)
    wait_until(lambda: "node.toml: it is empty; put back" in child.stderr, "the emptied file is not refused")
    child.signal(signal.SIGTERM)
    assert child.wait() == 0
