"""The files of golden/, as docs/formats/relay-format.md has them: `python -m tests.relay.make_golden` writes them anew.

    record         a log with a row of each kind, each field of a row set in one of them, and two seals
    checkpoint-0   the state behind its first rows
    frames.txt     a frame of each form and kind, hello and welcome

certificate.der stays as it is: a SIGNER row has it.
"""

from __future__ import annotations

import json
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from cryptography.x509 import load_der_x509_certificate

import rtmw
from rtmw.net.security.certificates import fingerprint
from rtmw.relay import Frame
from rtmw.relay import rows as r
from rtmw.relay.frame import Filter, Hello, Kind, Packet, Welcome, encode
from rtmw.relay.rows import Row
from rtmw.relay.seals import Sealer
from rtmw.relay.state import State

GOLDEN: Final = Path(__file__).parent / "golden"
CERTIFICATE: Final = (GOLDEN / "certificate.der").read_bytes()
AT: Final = 1_796_000_000_000_000_000
TOKEN: Final = bytes(range(8))
FRAME: Final = Frame("AODB", "GATE", b"2026-11-29 13:44:12.12", "O", "I", b"CA981 gate 12")
RECEIPT: Final = FRAME.receipt(b"2026-11-29 13:44:13.00")


def _stored(number: int, recipients: list[str], **fields: object) -> Row:
    frame = Frame("AODB", "GATE", b"%022d" % number, "O", "I", b"CA981 gate %d\n" % number)
    head = frame.head
    row = Row(
        r.STORED, AT + number, number, "AODB", "GATE", recipients=recipients, priority=3, lifetime=2.5, head=head,
        body=frame.data, digest=frame.digest, by_content=True, rule="node.toml, line 24",
        version="451819582230",
    )  # fmt: skip
    return replace(row, **fields)  # type: ignore[arg-type]


def _leg(kind: str, number: int, **fields: object) -> Row:
    return replace(Row(kind, AT + 100 + number, number, "AODB", "GATE", "GATE"), **fields)  # type: ignore[arg-type]


BEFORE: Final = (
    Row(r.CONNECTED, AT, source="AODB"),
    Row(r.FOLLOWED, AT, 0, "GATE", "FLTS", body=Filter("AODB", "I").encode(), head=FRAME.head, told=True),
    Row(r.FOLLOWED, AT, 0, "BAGS", "FLTS", body=Filter().encode(), head=RECEIPT.head, told=True),
    Row(r.UNFOLLOWED, AT, 0, "BAGS", "FLTS", body=Filter().encode(), head=FRAME.head),
    _stored(1, ["GATE"]),
    _leg(r.SENT, 1, tries=1),
    _leg(r.DELIVERED, 1, tries=1, head=RECEIPT.head),
    _stored(2, ["GATE"], destination="FLTS", told=True),
    _stored(3, ["GATE"], by_content=False),
    _leg(r.SENT, 3, tries=2),
    _leg(r.HELD, 3),
    _leg(r.UNCONFIRMED, 3, tries=2, cause="no receipt within 20 s"),
)  # fmt: skip
BEHIND: Final = (
    Row(r.CHECKPOINT, AT + 200, digest=TOKEN),
    _leg(r.LATE, 3, head=RECEIPT.head),
    _stored(4, ["GATE"]),
    _leg(r.UNDELIVERED, 4, cause="not connected"),
    _stored(5, ["GATE"]),
    _leg(r.EXPIRED, 5, cause="its lifetime is over"),
    Row(
        r.REFUSED, AT + 300, 0, "AODB", "GATE", cause="it is too large", head=FRAME.head, performative="tell",
        size=70_000, is_allowed=True, rule="node.toml, line 24", version="451819582230",
    ),
    Row(r.DROPPED, AT + 301, 0, "GATE", "AODB", head=RECEIPT.head, cause="a receipt for nothing"),
    Row(r.ALARM, AT + 302, source="GATE", cause="more than one program connects as this agent, by turns"),
    Row(r.ACT, AT + 303, cause="hold GATE", uid=1000),
    Row(r.SIGNER, AT + 304, version=fingerprint(load_der_x509_certificate(CERTIFICATE)), body=CERTIFICATE),
    Row(r.GONE, AT + 305, source="AODB"),
)  # fmt: skip
FRAMES: Final = {
    "paper A": FRAME.encode("A"),
    "paper B": FRAME.encode("B"),
    "hello": Hello(b"AODB", 10.0, 3, crc=True).encode(),
    "welcome": Welcome(5.0, 3, 1 << 20, FRAME.stamp).encode(),
    **{kind.name.lower(): encode(Packet(kind, FRAME, kind - 1, 2.5)) for kind in Kind},
    "order with CRC": encode(Packet(Kind.ORDER, FRAME), crc=True),
}


def write(folder: Path) -> None:
    """`folder`: it is not there."""
    folder.mkdir()
    (folder / "frames.txt").write_text("".join(f"{name}: {raw.hex()}\n" for name, raw in FRAMES.items()))
    state, sealer, before, begin = State(), Sealer(None), "", 0
    with rtmw.Log(folder / "record", Row, segment="64K") as log:
        for rows in (BEFORE, BEHIND):
            if rows is BEHIND:
                _write_checkpoint(folder / "checkpoint-0", state, log.end)
            for row in rows:
                state.apply(row, log.end)
                log.append(row)
            (seal,) = sealer.rows(log, begin, before, "", AT + 400)
            before, begin = seal.digest.hex(), log.end
            state.apply(seal, log.end)
            log.append(seal)


def _write_checkpoint(file: Path, state: State, position: int) -> None:
    head = {"version": 1, "position": position, "token": TOKEN.hex()}
    data = "".join(f"{line}\n" for line in (json.dumps(head), *state.lines())).encode()
    file.write_bytes(data + b"%08x\n" % zlib.crc32(data))


def main() -> None:
    shutil.rmtree(GOLDEN)
    write(GOLDEN)
    (GOLDEN / "certificate.der").write_bytes(CERTIFICATE)
    (GOLDEN / "record" / "lock").unlink()


if __name__ == "__main__":
    main()
