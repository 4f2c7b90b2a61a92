"""Seals of the record (R4): a chain of SHA-256 over all rows, signed with the key of the node, and how it is verified.

    rows    … r r r r r S r r r r S …          S: a SEAL row; it covers the rows since the one before, that with them
    head    SHA-256(head before, then of each record: position u64, length u32, its bytes)
    body    position that it reaches to, u64; position that it begins at, u64; signature of these 16 bytes and the head

Whoever can write to the record can write it anew with other seals: without the key that shows, with the key it does
not. So evidence reaches to the last head that somebody else has: a relay sends heads to the agents in `seal_to`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from struct import Struct
from typing import Any, Final

import rtmw
from rtmw.relay import rows as r
from rtmw.relay.rows import Row

SEAL_ROWS: Final = 1000
"""A seal is written after this many rows, or a second; its head is sent once a second."""
HEAD_COMMAND: Final = b"S"
"""The command of orders that carry heads."""
MESSAGE: Final = b"rtmw relay seal 1\0"
_RECORD: Final = Struct("<QI")
_RANGE: Final = Struct("<QQ")
_SEAL_AT: Final = 16
"""The kind of a row stands in its first bytes."""


def chained(log: rtmw.Log[Any], begin: int, end: int, before: bytes) -> bytes:
    """The head of the chain over the records from `begin` up to `end`. `before`: the head in front of them."""
    head, pack = sha256(before), _RECORD.pack
    for batch in _batches(log, begin):
        if batch[0][0] >= end:
            break
        head.update(b"".join(pack(position, len(data)) + data for position, data in batch if position < end))
    return head.digest()


def _batches(log: rtmw.Log[Any], begin: int | rtmw.Start = rtmw.Start.EARLIEST) -> Iterator[list[tuple[int, bytes]]]:
    """Records with their positions, as they lie in the log, many at a time."""
    with log.read_batches(begin) as batches:
        for batch in batches:
            data, places = batch.data, batch.offsets.tolist()
            yield [
                (at, data[one:two]) for at, (one, two) in zip(batch.position.tolist(), pairwise(places), strict=True)
            ]


def words(row: Row) -> bytes:
    """The head of a SEAL row, for agents to keep."""
    upto, _ = _RANGE.unpack_from(row.body)
    return f"seal {upto} {row.digest.hex()} {row.body[_RANGE.size :].hex()}".strip().encode()


class Sealer:
    """Makes the rows of seals."""

    def __init__(self, keys: Path | None) -> None:
        """`keys`: the folder of the node's keys; None: seals have no signature. KeysError, NotInstalled."""
        self._sign: Callable[[bytes], bytes] = lambda _: b""
        self._signer = Row(r.SIGNER, 0)
        if keys is None:
            return
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        from rtmw.net.security.certificates import NODE, der, fingerprint, read_key
        from rtmw.net.security.identity import read_node

        certificate, key = read_node(keys)[0], read_key(keys / NODE)
        self._sign = lambda data: key.sign(data, ec.ECDSA(hashes.SHA256()))
        self._signer = Row(r.SIGNER, 0, version=fingerprint(certificate), body=der(certificate))

    def rows(self, log: rtmw.Log[Row], begin: int, before: str, signer: str, at: int) -> list[Row]:
        """A seal of all that is durable from `begin` on. `before`: the head of the seal before; `signer`: by whom."""
        end = log.end
        head = chained(log, begin, end, bytes.fromhex(before))
        body, whose = _RANGE.pack(end, begin), self._signer.version
        body += self._sign(MESSAGE + body + head)
        first = [Row(r.SIGNER, at, version=whose, body=self._signer.body)] if whose != signer else []
        return [*first, Row(r.SEAL, at, version=whose, digest=head, body=body)]


# ---- verify ----


@dataclass
class Found:
    """What a record proves. Positions are those of rows."""

    begin: int = 0
    """Where the record begins; above 0: what was before was trimmed."""
    end: int = 0
    seals: int = 0
    sealed: int = 0
    """The chain is whole up to here."""
    signed: int = 0
    """Seals with a signature that is right."""
    signers: list[str] = field(default_factory=list[str])
    held: int = 0
    """The last position that a head which somebody else has reaches to."""
    faults: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    notes: list[str] = field(default_factory=list[str])


def verify(folder: Path, keys: Path | None = None, heads: Iterable[str] = ()) -> Found:
    """Verifies the seals of the record in a folder. `keys`: a folder with the authorities (`ca.pem`) whose nodes may
    sign. `heads`: lines that agents have got, as `words` makes them. Raises LogError and its kind where nothing can be
    read."""
    found = Found()
    with rtmw.Log(folder, Row, create=False) as log:
        stats = log.stats()
        found.begin, found.end = stats.earliest, stats.end
        seals = list[tuple[int, Row]]()
        try:
            seals += _seals(log)
            _follow(log, seals, found)
        except rtmw.LogError as error:
            at = error.start if isinstance(error, rtmw.LogDamaged) else found.sealed
            found.faults.append((at, f"it cannot be read: {error}"))
    _check_signatures([row for _, row in seals], keys, found)
    _check_heads([row for _, row in seals], heads, found)
    found.faults.sort()
    return found


def _seals(log: rtmw.Log[Row]) -> Iterator[tuple[int, Row]]:
    """Rows of kind SEAL and SIGNER. Only those are decoded."""
    decode = log.type.decode
    assert decode is not None, "rows have a type"
    for position, data in chain.from_iterable(_batches(log)):
        if b"SEAL\0" in data[:_SEAL_AT] or b"SIGNER\0" in data[:_SEAL_AT]:
            yield position, decode(data)


def _follow(log: rtmw.Log[Row], seals: list[tuple[int, Row]], found: Found) -> None:
    """The chain: each seal begins where the one before ended, and has the hash of what lies between."""
    before, expected = b"", 0
    for position, row in seals:
        if row.kind != r.SEAL:
            continue
        upto, begin = _RANGE.unpack_from(row.body)
        found.seals += 1
        is_first = found.seals == 1
        if is_first and found.begin:
            found.notes.append(
                f"rows before {found.begin} were trimmed: the first seal, of {begin} to {upto}, is taken as it is, and "
                "what it covers is proved by nothing here"
            )
        elif begin != expected:
            found.faults.append((expected, f"a gap: the seal at {position} begins at {begin}, and not at {expected}"))
        is_lost = begin < found.begin or (is_first and begin > 0)
        if not is_lost and (not begin <= upto <= position or chained(log, begin, upto, before) != row.digest):
            found.faults.append((begin, f"rows from here to {upto} are not those that were sealed at {position}"))
        elif not found.faults:
            found.sealed = upto
        before, expected = row.digest, upto


def _check_signatures(rows: list[Row], keys: Path | None, found: Found) -> None:
    if not any(row.version for row in rows):
        if found.seals:
            words = "no seal is signed: name keys in [relay], or whoever can write the record can seal it anew"
            found.notes.append(words)
        return
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    from rtmw.net.security.certificates import fingerprint, issuer_of, name_of, read_authorities

    authorities = read_authorities(keys) if keys is not None else []
    if keys is None:
        found.notes.append("nobody vouches for the certificates that the record has: name a folder with ca.pem, --keys")
    public = dict[str, Any]()
    for row in rows:
        upto, begin = _RANGE.unpack_from(row.body) if row.kind == r.SEAL else (0, 0)
        try:
            if row.kind == r.SIGNER and row.version:
                certificate = x509.load_der_x509_certificate(row.body)
                if fingerprint(certificate) != row.version:
                    raise ValueError("a certificate is not the one that its row says")
                if keys is not None and issuer_of(certificate, authorities) is None:
                    raise ValueError(f"the certificate of {name_of(certificate)} is signed by no authority in {keys}")
                public[row.version] = certificate.public_key()
                found.signers.append(str(name_of(certificate)))
            elif row.kind == r.SEAL and row.version:
                message = MESSAGE + row.body[: _RANGE.size] + row.digest
                public[row.version].verify(row.body[_RANGE.size :], message, ec.ECDSA(hashes.SHA256()))
                found.signed += 1
            elif row.kind == r.SEAL and found.signed:
                raise ValueError("a seal has no signature, and those before have")
        except InvalidSignature:
            found.faults.append((begin, f"the signature of the seal up to {upto} is not of the node's key"))
        except KeyError:
            if found.begin == 0:
                found.faults.append((begin, f"the certificate that verifies the seal up to {upto} is not there"))
        except ValueError as error:
            found.faults.append((begin, str(error)))


def _check_heads(rows: list[Row], heads: Iterable[str], found: Found) -> None:
    there = {_RANGE.unpack_from(row.body)[0]: row.digest.hex() for row in rows if row.kind == r.SEAL}
    for line in heads:
        name, upto, head, *_ = (*line.split(), "", "", "")
        if name != "seal" or not upto.isdecimal():
            continue
        at = int(upto)
        if there.get(at) == head:
            found.held = max(found.held, at)
        elif at >= found.begin:
            what = "has another seal there" if at in there else f"ends at {found.end}, and has no seal there"
            found.faults.append((min(at, found.end), f"somebody has a head up to {at}, and the record {what}"))
