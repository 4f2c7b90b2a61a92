"""What a node says of its keys and rules: in its status, its metrics and to its doctor; and what SIGHUP takes in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from rtmw.cli import node_doctor
from rtmw.net.metrics import _of_keys
from rtmw.net.security import certificates as c
from rtmw.net.security import keys
from rtmw.net.security.health import KeysHealth
from rtmw.net.security.names import parse_name
from rtmw.net.security.rules import RuleTable
from rtmw.net.security.tables import NO_LINK, Link
from rtmw.net.settings import Settings
from rtmw.net.status import make_waiting
from rtmw.observe.node_status import Keys
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until

HUB = parse_name("rtmw://plant/hub")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys.init(tmp_path / "keys", HUB, time.time())
    return tmp_path / "keys"


def samples(row: Keys | None) -> dict[str, float]:
    return {one.name: one.value for family in _of_keys(row) for one in family.samples}


def test_a_node_without_keys_says_nothing_of_them() -> None:
    assert KeysHealth().look(NO_LINK) is None
    assert samples(None) == {}


def test_good_keys_are_told_with_their_expiry(folder: Path) -> None:
    row = KeysHealth().look(Link(folder))
    assert row is not None
    assert (row.name, row.warning) == (str(HUB), None)
    assert samples(row) == {
        "rtmw_node_keys_warning": 0,
        "rtmw_node_certificate_expiry_time_seconds": row.expires,
    }
    assert node_doctor.keys(row).advice == ""


def test_below_a_third_of_the_lifetime_metrics_and_doctor_warn(folder: Path) -> None:
    health, now = KeysHealth(), time.time()
    for days, warns in ((59, False), (61, True), (91, True)):
        row = health.look(Link(folder), now + days * c.DAY_S)
        assert row is not None
        assert samples(row)["rtmw_node_keys_warning"] == warns
        assert node_doctor.keys(row).advice.endswith("rtmw node keys renew") is warns


def test_keys_that_were_renewed_are_seen_and_so_is_what_breaks_them(folder: Path) -> None:
    health = KeysHealth()
    before = health.look(Link(folder))
    keys.renew(folder, time.time())
    after = health.look(Link(folder))
    assert before is not None
    assert after is not None
    assert before.serial != after.serial
    revoked = health.look(Link(folder, frozenset({int(after.serial or "", 16)})))
    assert revoked is not None
    assert revoked.warning == "revoked by the settings"
    (folder / c.NODE).chmod(0o644)
    row = health.look(Link(folder))
    assert row is not None
    assert "chmod 600" in (row.warning or "")
    assert samples(row) == {"rtmw_node_keys_warning": 1}
    assert node_doctor.keys(row).found == "cannot be used"


def test_the_file_of_the_rules_is_told_so_that_it_is_found_from_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = make_waiting(Settings(allow=RuleTable(source="node.toml")), "", 0.0)
    assert told.rules.file == str(tmp_path / "node.toml")
    assert make_waiting(Settings(), "", 0.0).rules.file == ""


def test_sighup_takes_rules_in_as_a_whole_or_not_at_all(domain_id: int, tmp_path: Path, folder: Path) -> None:
    host, file = Host(domain_id, free_number(), tmp_path), tmp_path / "node.toml"
    rule = '[link]\nkeys = "keys"\n[[allow]]\npeer = "*"\npublish = ["a/*"]\n'
    file.write_text(rule)
    try:
        host.start("--config", str(file))
        before = host.info()
        assert (before["rules"]["file"], before["rules"]["number"]) == (str(file), 1)
        assert before["keys"]["name"] == str(HUB)
        file.write_text(rule + "[[allow]]\npeer = '*'\ndeny = 3\n")
        os.kill(host.node.pid, signal.SIGHUP)
        wait_until(lambda: "the settings stay as they are" in host.said, "the broken file is not refused")
        assert f"{file}, line 8: deny cannot be used" in host.said
        assert host.info()["rules"] == before["rules"]
        file.write_text(rule + '[[allow]]\npeer = "*"\ndeny = ["a/secret"]\n')
        os.kill(host.node.pid, signal.SIGHUP)
        wait_until(lambda: "changed: allow" in host.said, "the rules are not taken in")
        wait_until(lambda: host.info()["rules"]["number"] == 2, "the status does not tell the rules")
        assert host.info()["rules"]["version"] != before["rules"]["version"]
        assert "PRIVATE" not in host.said
    finally:
        host.end()
