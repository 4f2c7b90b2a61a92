"""Which OpenSSL has the TLS of links: that of Python, that of the system, or one that the settings name."""

from __future__ import annotations

import ctypes
import re
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw.errors import RtmwError
from rtmw.net.link.library import openssl
from tests import warm
from tests.net.hosts import wait_until
from tests.net.link.nodes import LinkedPair


def loaded(pid: int | str = "self") -> set[str]:
    """The files from which a process has a libssl."""
    return set(re.findall(r"/\S*libssl\S*", Path(f"/proc/{pid}/maps").read_text()))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A libssl in a place of its own: for the linker another library than that of the system."""
    ctypes.CDLL("libssl.so.3")
    path = tmp_path / "libssl.so.3"
    shutil.copy(min(loaded()), path)
    return path


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[LinkedPair]:
    pair = LinkedPair(tmp_path).with_keys()
    yield pair
    pair.end()


def test_without_a_name_it_is_the_one_that_python_has_where_that_shows_itself() -> None:
    assert openssl().startswith("OpenSSL 3.")
    if loaded():
        assert openssl() == ssl.OPENSSL_VERSION
    assert openssl("libssl.so.3") == openssl()


def test_one_that_is_named_is_used_beside_that_of_python(other: Path) -> None:
    assert openssl(str(other)) == openssl()  # a copy
    assert str(other) in loaded()
    assert len(loaded()) > 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nowhere/libssl.so.3", "the OpenSSL that [link] names cannot be loaded: /nowhere/libssl.so.3"),
        ("libm.so.6", "libm.so.6 has no TLS_server_method: links need libssl of OpenSSL 3.0 or later"),
    ],
)
def test_one_that_is_none_is_refused_in_words(path: str, words: str) -> None:
    with pytest.raises(RtmwError, match=re.escape(words)):
        openssl(path)


def test_nodes_with_different_ones_have_a_link_and_say_which(linked: LinkedPair, other: Path) -> None:
    linked.link["hub"] += f'openssl = "{other}"\n'
    linked.start().wait_up()
    assert str(other) in loaded(linked.hub.node.pid)
    assert str(other) not in loaded(linked.press.node.pid)
    for host in linked.hosts.values():
        assert host.info()["links"]["openssl"] == openssl()
    said = " ".join(warm.run("node", "doctor", "--domain", str(linked.hub.number)).stdout.split())
    assert f"OpenSSL of links {openssl()}" in said


def test_settings_that_name_none_are_not_taken_in_and_the_link_stays(linked: LinkedPair, tmp_path: Path) -> None:
    linked.start().wait_up()
    good = linked.link["hub"]
    linked.link["hub"] = f'{good}openssl = "{tmp_path}/none.so"\n'
    linked.reload("hub")
    wait_until(lambda: "the settings stay as they are: the OpenSSL that [link] names cannot" in linked.hub.said, "why")
    assert linked.is_up("hub")
    checked = warm.run("node", "check", str(linked.settings("hub")))
    assert checked.returncode != 0
    said = " ".join(checked.stdout.split())
    assert "hub.toml, line 4: the OpenSSL that [link] names cannot be loaded" in said


def test_a_node_does_not_begin_without_the_one_that_is_named(linked: LinkedPair, tmp_path: Path) -> None:
    linked.link["hub"] += f'openssl = "{tmp_path}/none.so"\n'
    linked.hub.launch("--config", str(linked.settings("hub")))
    assert linked.hub.node.wait(60) != 0
    assert "cannot be loaded" in linked.hub.said
