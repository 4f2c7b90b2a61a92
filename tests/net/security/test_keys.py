"""The folder of keys through its commands: from nothing to two nodes, renewal, rotation, faults."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rtmw.net.security import KeysError, keys
from rtmw.net.security import certificates as c
from rtmw.net.security.identity import Identity
from rtmw.net.security.names import parse_name
from tests.net.security.site import Site, handshake, put

DOCUMENT = Path(__file__).parents[3] / "docs" / "links.md"
HUB, PRESS = parse_name("rtmw://plant/hub"), parse_name("rtmw://plant/press-7")


def rtmw(folder: Path, *words: str, limit: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rtmw", "node", "keys", *words]
    if limit:
        command = ["bash", "-c", f'{limit}; exec "$@"', "bash", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def well(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def meet(one: Path, other: Path) -> None:
    a, b = Identity.load(one), Identity.load(other)
    here, there = handshake(a.server_context(), b.client_context())
    assert (here.error, there.error) == (None, None)
    assert a.peer_of(here.certificate).name == b.name


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    keys.init(tmp_path / "hub", HUB, time.time())
    return tmp_path / "hub"


@pytest.fixture
def press(hub: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "press"
    carry(hub, folder, keys.request(folder, PRESS)[0])
    return folder


def carry(hub: Path, folder: Path, request: Path, *, trust: bool = False) -> None:
    signed = keys.sign(hub, request, folder.parent / "signed.pem", time.time())
    keys.install(folder, signed.path, time.time(), trust=trust)


def test_the_lines_of_the_document_take_two_hosts_to_two_nodes_that_meet(tmp_path: Path) -> None:
    block = re.findall(r"```bash\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    assert len(block.splitlines()) <= 10
    program = tmp_path / "bin" / "rtmw"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rtmw "$@"\n')
    program.chmod(0o700)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(["bash", "-ec", block], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    meet(tmp_path / "hub" / "keys", tmp_path / "press" / "keys")
    fingerprint = re.findall(r"key ((?:[0-9a-f]{2}:){31}[0-9a-f]{2})", done.stdout)
    assert len(fingerprint) == 2
    assert fingerprint[0] == fingerprint[1]


def test_every_file_is_for_its_owner_alone(hub: Path, press: Path) -> None:
    for folder in (hub, press):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert {file.name for file in press.iterdir()} == {c.NODE, c.AUTHORITIES}


def test_no_command_says_anything_of_a_private_key(tmp_path: Path) -> None:
    said = ""
    for words in (["init", str(HUB)], ["renew"], ["renew", "--authority"], ["show"], ["show", "--json"]):
        said += well(rtmw(tmp_path, *words))
    assert list(tmp_path.glob("**/*.key"))
    for path in (tmp_path / "keys" / c.NODE, tmp_path / "keys" / c.AUTHORITY_KEY):
        body = path.read_text().split("-----")[2].split()
        assert not any(line in said for line in body)


def test_show_tells_names_expiry_serials_and_fingerprints(hub: Path) -> None:
    told = json.loads(well(rtmw(hub.parent, "show", "--folder", "hub", "--json")))
    own, authority = told["certificates"]
    assert (told["well"], own["facts"]["name"], own["warning"]) == (True, str(HUB), None)
    assert (authority["what"], authority["facts"]["name"]) == ("authority, signs here", "rtmw authority of plant")
    text = well(rtmw(hub.parent, "show", "--folder", "hub"))
    assert re.search(rf"this node +{HUB} +in (90 d|89 d 23 h|89 d 24 h) +{own['facts']['serial']} ", text)
    assert own["facts"]["fingerprint"] in text


def test_what_has_less_than_a_third_of_its_lifetime_is_warned_of(tmp_path: Path) -> None:
    now = time.time()
    for days, warns in ((55, False), (65, True), (95, True)):
        folder = tmp_path / str(days)
        keys.init(folder, HUB, now - days * c.DAY_S)
        assert any(one.warning for one in keys.show(folder, now)) is warns
        done = rtmw(tmp_path, "show", "--folder", str(days))
        assert done.returncode == (1 if warns else 0)
        assert ("less than a third" in done.stdout or "expired" in done.stdout) is warns


def test_the_certificate_in_use_stays_until_the_new_one_is_installed(hub: Path, press: Path) -> None:
    before = (press / c.NODE).read_bytes()
    assert keys.renew(press, time.time()) is None
    assert (press / c.NODE).read_bytes() == before
    meet(hub, press)
    waiting = keys.pending(press)
    assert waiting is not None
    assert waiting[0] == str(PRESS)
    carry(hub, press, press / c.REQUEST)
    assert (press / c.NODE).read_bytes() != before
    assert c.read_key(press / c.NODE).private_numbers() != key_in(before)
    assert keys.pending(press) is None
    meet(hub, press)


def key_in(data: bytes) -> object:
    key = c.serialization.load_pem_private_key(data, None)
    assert isinstance(key, c.ec.EllipticCurvePrivateKey)
    return key.private_numbers()


def test_the_host_that_signs_renews_at_once_with_another_key(hub: Path, press: Path) -> None:
    before = (hub / c.NODE).read_bytes()
    assert keys.renew(hub, time.time()) is not None
    assert key_in((hub / c.NODE).read_bytes()) != key_in(before)
    meet(hub, press)


def test_nodes_meet_at_each_step_of_a_rotation_of_the_authority(hub: Path, press: Path) -> None:
    keys.renew_authority(hub, time.time())
    with pytest.raises(
        KeysError, match=r"brings an authority that .* does not have: .*; compare .*install with --trust"
    ):
        keys.install(press, hub / c.AUTHORITIES, time.time())
    meet(hub, press)
    keys.install(press, hub / c.AUTHORITIES, time.time(), trust=True)
    meet(hub, press)
    keys.renew(hub, time.time())
    meet(hub, press)
    meet(press, hub)
    keys.renew(press, time.time())
    carry(hub, press, press / c.REQUEST)
    meet(hub, press)
    put(hub / c.AUTHORITIES, c.pem(c.read_certificates(hub / c.AUTHORITIES)[:1]))
    keys.install(press, hub / c.AUTHORITIES, time.time())
    meet(hub, press)
    assert len(Identity.load(press).authorities) == 1


Step = Callable[[Path, Path], Any]
STEPS: dict[str, Step] = {
    "init": lambda hub, press: keys.init(hub.parent / "new", HUB, time.time()),
    "renew": lambda hub, press: keys.renew(hub, time.time()),
    "authority": lambda hub, press: keys.renew_authority(hub, time.time()),
    "request": lambda hub, press: keys.renew(press, time.time()),
    "install": lambda hub, press: carry(hub, press, keys.request(press, PRESS)[0]),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_command_that_died_at_any_write_can_be_run_again_and_nodes_meet_meanwhile(
    hub: Path, press: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, at = c.write, 0
    is_over = False
    while not is_over:
        left = [at]

        def dies(path: Path, data: bytes, left: list[int] = left) -> None:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            write(path, data)

        monkeypatch.setattr(c, "write", dies)
        try:
            STEPS[name](hub, press)
            is_over = True
        except KeyboardInterrupt:
            at += 1
        monkeypatch.setattr(c, "write", write)
        meet(hub, press)
        assert keys.sign(hub, keys.request(hub.parent / "other", PRESS)[0], hub.parent / "x.pem", time.time()).name
    assert at >= 1


@pytest.mark.parametrize("words", [["renew"], ["renew", "--authority"]])
def test_a_disk_that_takes_no_more_changes_nothing_and_is_told(hub: Path, words: list[str]) -> None:
    before = {file.name: file.read_bytes() for file in hub.iterdir()}
    done = rtmw(hub.parent, *words, "--folder", "hub", limit="ulimit -f 0")
    assert done.returncode == 1
    assert re.fullmatch(r"rtmw: hub/\S+: cannot be written: File too large\n", done.stderr)
    assert {file.name: file.read_bytes() for file in hub.iterdir()} == before


def test_an_authority_signs_no_name_of_another_site(hub: Path, tmp_path: Path) -> None:
    request, _ = keys.request(tmp_path / "cloud", parse_name("rtmw://cloud/ingest"))
    with pytest.raises(KeysError, match="is of site plant, and signs no name of another: rtmw://cloud/ingest"):
        keys.sign(hub, request, None, time.time())


def test_a_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    now = time.time()
    made = keys.init(tmp_path / "hub", HUB, now - (c.AUTHORITY_DAYS - 5) * c.DAY_S)
    assert made.expires < now
    renewed = keys.renew(tmp_path / "hub", now)
    assert renewed is not None
    assert renewed.expires == pytest.approx(now + 5 * c.DAY_S, abs=5)


def test_each_mistake_is_told_with_what_to_do(hub: Path, press: Path, tmp_path: Path) -> None:
    now = time.time()
    other = keys.request(tmp_path / "other", PRESS)[0]
    foreign = keys.sign(hub, other, tmp_path / "foreign.pem", now).path
    damaged = tmp_path / "damaged.pem"
    damaged.write_bytes(b"nothing")
    alien = Site(tmp_path / "alien")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(c.pem([*c.read_certificates(foreign)[:1], alien.authority]))
    for act, said in (
        (lambda: keys.init(hub, HUB, now), "has keys of a node already: rtmw node keys show, or renew"),
        (lambda: keys.install(press, foreign, now), "no key waits in .*: rtmw node keys request, or renew"),
        (lambda: keys.install(press, damaged, now), "has no certificates in PEM that can be read"),
        (lambda: keys.install(tmp_path / "other", mixed, now), "none of its authorities has signed its certificate"),
        (lambda: keys.sign(hub, damaged, None, now), "is no request: take the request.pem"),
        (lambda: keys.sign(press, other, None, now), "requests are signed on the host where rtmw node keys init"),
        (lambda: keys.renew(tmp_path / "none", now), "there is no folder .*none: make keys"),
        (lambda: keys.renew(tmp_path / "other", now), "there is no .*node.pem: make keys"),
        (lambda: list(keys.show(tmp_path / "none", now)), "there is no folder"),
        (lambda: keys.renew_authority(press, now), "requests are signed on the host"),
    ):
        with pytest.raises(KeysError, match=said):
            act()
    keys.renew(press, now)
    with pytest.raises(KeysError, match="is for another key than the one that waits"):
        keys.install(press, foreign, now)
    (press / c.PENDING_KEY).chmod(0o644)
    with pytest.raises(KeysError, match="can be read by others"):
        keys.pending(press)
    assert "is no name of a node" in rtmw(tmp_path, "request", "plant/press").stderr


@pytest.mark.parametrize(("count", "advice"), [(0, "take it from a backup, or make another one"), (2, "delete those")])
def test_a_file_with_no_key_or_with_several_is_refused_with_what_to_do(tmp_path: Path, count: int, advice: str) -> None:
    put(tmp_path / c.NODE, b"".join(c.key_pem(c.new_key()) for _ in range(count)))
    with pytest.raises(KeysError, match=f"{c.NODE} has {count} private keys in PEM; it must have one: {advice}"):
        c.read_key(tmp_path / c.NODE)


def test_without_the_package_of_certificates_the_commands_say_how_to_install_it(tmp_path: Path) -> None:
    program = "import sys; sys.modules['cryptography'] = None; from rtmw.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        program,
        "node",
        "keys",
        "init",
        "rtmw://plant/hub",
        "--folder",
        str(tmp_path / "k"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"rtmw: cryptography is not installed, .*\s+pip install 'rtmw\[link\]'\n", done.stderr)
