"""Seals of the record: what a verifier finds, and what it cannot find by itself (R4)."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

import rtmw
from rtmw.net.security.keys import init
from rtmw.net.security.names import parse_name
from rtmw.relay import rows as r
from rtmw.relay.rows import Row
from rtmw.relay.seals import Found, Sealer, verify, words
from rtmw.relay.store import Store
from tests.cli.command import Run
from tests.cli.conftest import run
from tests.relay.starting import append, fill
from tests.relay.test_server import SETTINGS, Peer, Relay

__all__ = ["run"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "keys"
    init(folder, parse_name("rtmw://plant/hub"), time.time())
    return folder


def sealed(folder: Path, keys: Path | None, seals: int = 3, segment: str = "64K") -> list[str]:
    """A record with so many seals, and rows behind the last; the heads of the seals."""
    store, sealer, heads = Store(folder, 10.0, segment=segment), Sealer(keys), list[str]()
    for number in range(seals):
        fill(store, 1 + 50 * number, 50)
        assert store._last is not None
        store._last.resolve()
        store.seal(sealer)
        assert store.untold is not None
        heads.append(words(store.untold).decode())
    fill(store, 1000, 2)
    store.close()
    return heads


def rows_of(folder: Path) -> list[Row]:
    with rtmw.Log(folder / "record", Row) as log:
        return [record.value for record in log.read()]


def forged(folder: Path, rows: list[Row]) -> Path:
    """A record of these rows, as anybody can write it who can write the folder."""
    with rtmw.Log(folder / "record", Row, segment="64K") as log:
        for row in rows:
            log.append_many([row])
    return folder / "record"


def first_fault(found: Found) -> tuple[int, str]:
    assert found.faults
    return found.faults[0]


@pytest.mark.parametrize("signs", [True, False])
def test_a_record_as_it_was_sealed_is_whole_up_to_its_last_seal(signs: bool, keys: Path, tmp_path: Path) -> None:
    heads = sealed(tmp_path, keys if signs else None)
    found = verify(tmp_path / "record", keys, heads)
    assert found.faults == []
    assert (found.seals, found.signed) == (3, 3 if signs else 0)
    assert found.begin < found.sealed == found.held < found.end
    assert found.signers == (["rtmw://plant/hub"] if signs else [])


def test_a_row_that_is_not_durable_when_others_are_sealed_gets_the_next_seal(tmp_path: Path) -> None:
    store, sealer = Store(tmp_path, 10.0), Sealer(None)
    fill(store, 1, 5)
    assert store._last is not None
    store._last.resolve()
    fill(store, 100, 1)
    store.seal(sealer)
    store._last.resolve()
    store.seal(sealer)
    assert store.state.sealed > store.state.numbers[100].position
    assert store.unsealed == 0
    store.close()


# Proves G323, R11.
def test_a_row_that_is_changed_taken_out_or_put_in_is_found_with_its_place(keys: Path, tmp_path: Path) -> None:
    sealed(tmp_path / "made", keys)
    rows = rows_of(tmp_path / "made")
    wanted = [row for row in rows if row.kind == r.SEAL]
    second = int.from_bytes(wanted[0].body[:8], "little")
    at = rows.index(wanted[0]) + 20
    changed = replace(rows[at], cause="x")
    for number, others in enumerate(([changed], [], [rows[at], rows[at]])):
        found = verify(forged(tmp_path / f"{number}", [*rows[:at], *others, *rows[at + 1 :]]), keys)
        assert first_fault(found)[0] == second
        assert "not those that were sealed" in first_fault(found)[1] or "a gap" in first_fault(found)[1]
        assert found.sealed == second


def test_a_bit_that_turned_is_damage_at_a_position(keys: Path, tmp_path: Path) -> None:
    sealed(tmp_path, keys, segment="64K")
    file = sorted((tmp_path / "record").glob("*.seg"))[0]
    data = bytearray(file.read_bytes())
    data[20_000] ^= 1
    file.write_bytes(data)
    position, said = first_fault(verify(tmp_path / "record", keys))
    assert "cannot be read" in said
    assert 0 <= position <= 20_000


# Proves G323.
def test_a_tail_that_is_cut_shows_by_a_head_that_somebody_has(keys: Path, tmp_path: Path) -> None:
    heads = sealed(tmp_path / "made", keys)
    rows = rows_of(tmp_path / "made")
    last = max(at for at, row in enumerate(rows) if row.kind == r.SEAL)
    cut = forged(tmp_path / "cut", rows[: last - 20])
    assert verify(cut, keys).faults == [], "by itself it is a shorter record"
    position, said = first_fault(verify(cut, keys, heads))
    assert said.startswith("somebody has a head")
    assert position <= int(heads[-1].split()[1])


def test_segments_that_change_places_are_found(keys: Path, tmp_path: Path) -> None:
    sealed(tmp_path, keys, seals=8)
    first, second, *_ = sorted((tmp_path / "record").glob("*.seg"))
    aside = tmp_path / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    try:
        found = verify(tmp_path / "record", keys)
    except rtmw.LogError:  # the log itself refuses it
        return
    assert found.faults


def sealed_anew(folder: Path, rows: list[Row], keys: Path | None) -> Path:
    store, sealer = Store(folder, 10.0), Sealer(keys)
    append(store, [row for row in rows if row.kind not in r.OF_RECORD])
    assert store._last is not None
    store._last.resolve()
    store.seal(sealer)
    store.close()
    return folder / "record"


# Proves G323.
def test_a_chain_that_is_made_anew_shows_by_the_key_and_with_the_key_by_a_head_alone(
    keys: Path, tmp_path: Path
) -> None:
    heads = sealed(tmp_path / "made", keys)
    rows = [row for row in rows_of(tmp_path / "made") if row.order != 7]
    other = tmp_path / "other"
    init(other, parse_name("rtmw://plant/hub"), time.time())
    assert "signed by no authority" in first_fault(verify(sealed_anew(tmp_path / "a", rows, other), keys))[1]
    bare = verify(sealed_anew(tmp_path / "b", rows, None), keys)
    assert bare.signed == 0
    assert "no seal is signed" in bare.notes[0]
    with_key = sealed_anew(tmp_path / "c", rows, keys)
    assert verify(with_key, keys).faults == [], "whoever has the key can do that; the page says so"
    assert "somebody has a head" in first_fault(verify(with_key, keys, heads))[1]


def test_a_seal_without_signature_behind_signed_ones_is_a_fault(keys: Path, tmp_path: Path) -> None:
    sealed(tmp_path, keys)
    sealed_anew(tmp_path, rows_of(tmp_path)[:3], None)
    assert "has no signature" in first_fault(verify(tmp_path / "record", keys))[1]


def test_behind_a_trimmed_head_the_first_seal_is_taken_as_it_is_and_the_rest_is_proved(
    keys: Path, tmp_path: Path
) -> None:
    sealed(tmp_path, keys, seals=12)
    with rtmw.Log(tmp_path / "record", Row) as log:
        begin = log.trim(log.end - 80_000)
    assert begin > 0
    found = verify(tmp_path / "record", keys)
    assert (found.begin, found.faults) == (begin, [])
    assert "were trimmed" in found.notes[0]
    assert found.sealed > begin


def test_a_relay_seals_its_rows_and_sends_heads_that_prove_the_record(tmp_path: Path, run: Run) -> None:
    relay = Relay(tmp_path, SETTINGS.replace("[relay]\n", '[relay]\nseal_to = ["AODB"]\n'))
    relay.start()
    try:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        source.order("GATE", b"gate 12")
        gate.confirm(gate.take())
        frames = source.frames()
        head = next(frame for frame in frames if frame.command == b"S")
        assert (head.source, head.type) == (b"RLAY", b"O")
        source.confirm(head)
        relay.end()
    finally:
        relay.kill()
    heads = tmp_path / "heads"
    heads.write_bytes(head.data + b"\n")
    status, said, _ = run("relay", "audit", "verify", str(tmp_path), "--heads", str(heads), "--json")
    told = json.loads(said)
    assert (status, told["faults"]) == (0, [])
    assert 0 < told["held"] <= told["sealed"]
    _, said, _ = run("relay", "audit", "show", str(tmp_path), "--agent", "AODB", "--json")
    assert "relay" in {row["source"] for row in json.loads(said)}
    _, said, _ = run("relay", "audit", "export", str(tmp_path), "--order", "1")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["kind"] for row in rows] == ["STORED", "SENT", "DELIVERED"]
    assert rows[0]["data"] == "gate 12"
    assert run("relay", "audit", "export", str(tmp_path), "--format", "csv")[1].startswith("position,kind,at,order")
    status, _, said = run("relay", "audit", "verify", str(tmp_path / "none"))
    assert (status, "has no record of a relay" in said) == (1, True)
