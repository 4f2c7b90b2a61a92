"""`[log]` and `[control]` of a node's file: what they say, and what is said of mistakes, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.net.security import RulesError
from rtmw.net.security.tables import Link
from rtmw.replica.control.settings import CONTROL, LOG, Control, LogSettings, read_log
from rtmw.replica.control.sqlite import SqliteStore
from rtmw.settings import SettingsError
from tests.control.certificates import write_certificates


def read(folder: Path, text: str) -> LogSettings:
    (folder / "node.toml").write_text(text)
    return read_log(folder / "node.toml")


def test_the_file_of_a_node_of_three_on_one_host_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        name = "a"
        serve = ["log"]
        data = "a"
        [log]
        listen = "127.0.0.1:7501"
        connect = ["127.0.0.1:7502", "unix:/run/rtmw/c.sock"]
        sync_timeout = "50ms"
        lag = 3
        [control]
        store = "sqlite:control.db"
        """,
    )
    assert found.link == Link(listen=("127.0.0.1:7501",), connect=("127.0.0.1:7502", "unix:/run/rtmw/c.sock"))
    assert (found.min_insync, found.sync_timeout, found.lag, found.suspect) == (2, 0.05, 3.0, 1.0)
    assert found.control == Control(tmp_path / "control.db")
    store = found.control.open()
    assert isinstance(store, SqliteStore)
    assert str(tmp_path / "control.db") in store.where
    store.close()


def test_a_log_has_the_keys_of_link_where_it_names_none(tmp_path: Path) -> None:
    text = '[link]\nkeys = "keys"\nrevoked = ["5f"]\n[log]\nlisten = "0.0.0.0:7501"\n[control]\nstore = "sqlite:c"'
    found = read(tmp_path, text)
    assert (found.link.keys, found.link.revoked, found.link.connect) == (tmp_path / "keys", frozenset({0x5F}), ())


def test_etcd_is_asked_by_tls_with_the_certificates_that_the_file_names(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    text = '[control]\nstore = ["https://a:2379", "https://b:2379"]\nca = "ca.pem"\ncert = "node.pem"\nkey = "node.key"'
    control = read(tmp_path, text).control
    paths = [tmp_path / name for name in ("ca.pem", "node.pem", "node.key")]
    assert control == Control(("https://a:2379", "https://b:2379"), *paths)
    (tmp_path / "node.key").write_text("no key")
    with pytest.raises(SettingsError, match=r"node\.toml, line 3: certificates for etcd cannot be used: .*node\.key"):
        read(tmp_path, text)


PLAIN = '[control]\nstore = ["http://10.0.0.7:2379"]'


def test_beyond_loopback_etcd_needs_tls_or_a_word_that_it_may_be_without(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"node\.toml, line 2: http://10\.0\.0\.7:2379 is not on loopback.*use https"
    ):
        read(tmp_path, PLAIN)
    assert read(tmp_path, f"[log]\ninsecure = true\n{PLAIN}").control.store == ("http://10.0.0.7:2379",)
    assert read(tmp_path, '[control]\nstore = "http://127.0.0.1:2379"').control.store == ("http://127.0.0.1:2379",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "node.toml: a node that serves logs needs [control] with a store"),
        ("control = 3", "line 1: control must be a table, [control]"),
        ("log = 3\n[control]\nstore = 'sqlite:c'", "line 1: log must be a table, [log]"),
        ("[control]\nstor = 'sqlite:c'", "line 2: [control] has no stor; there are store, ca, cert, key"),
        (
            "[control]\nstore = 'sqlite:'",
            "line 2: store cannot be used: it is 'sqlite:'; the name of a file",
        ),
        ("[control]\nstore = 'control.db'", "line 2: store cannot be used: it is 'control.db'; it must be a file"),
        ("[control]\nstore = []", "line 2: store cannot be used: it is []; it must be a file"),
        ("[control]\nstore = ['https://a']", "a list of endpoints of etcd, such as ['https://a:2379'"),
        ("[control]\nstore = ['https://a:99999']", "line 2: store cannot be used"),
        ("[control]\nstore = ['https://a:1', 'http://b:1']", "all http or all https"),
        ("[control]\nstore = ['https://a:1', 7]", "line 2: store cannot be used"),
        ("[control]\nstore = 'sqlite:c'\nca = 'ca.pem'", "line 3: ca is for https, and store is 'sqlite:c'"),
        ("[control]\nstore = 'https://a:1'\ncert = 'c'", "line 3: cert and key go together; one of them is missing"),
        ("[control]\nstore = 'https://a:1'\nca = 'no.pem'", "line 3: certificates for etcd cannot be used: "),
        ("[log]\nmin_insync = 0\n[control]\nstore = 'sqlite:c'", "line 2: min_insync cannot be used: it is 0"),
        (
            "[log]\nlag = '0s'\n[control]\nstore = 'sqlite:c'",
            "lag cannot be used: it is '0s'; it must be from 0.01",
        ),
        ("[log]\nlease = 3\n[control]\nstore = 'sqlite:c'", "line 2: [log] has no lease; there are keys, revoked"),
        ("[log]\nlisten = '0.0.0.0:1'\n[control]\nstore = 'sqlite:c'", "line 2: listen: 0.0.0.0:1 is not on loopback"),
        ("[log]\nlisten = 'unix:a.sock'\n[control]\nstore = 'sqlite:c'", "is no Unix socket"),
    ],
)
def test_a_mistake_is_said_with_its_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises((SettingsError, RulesError)) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "node.toml"))


def test_every_setting_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "replication.md").read_text()
    for one in (*LOG.settings, *CONTROL.settings):
        assert f"`{one.name}`" in page, f"docs/replication.md lacks {one.name}"
