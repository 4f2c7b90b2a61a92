"""Real handshakes: who is let in, who is not, and what both ends say about it."""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from rtmw.net.security import KeysError, NotTrusted, keys
from rtmw.net.security import certificates as c
from rtmw.net.security.certificates import AUTHORITIES, NODE
from rtmw.net.security.identity import Identity
from rtmw.net.security.names import parse_name
from rtmw.net.session.errors import tls_in_words
from tests.net.security.site import End, Site, handshake, put
from tests.users import ALICE, needs_users

DAY_S = c.DAY_S


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, now=time.time() - 400 * DAY_S)


@pytest.fixture
def hub(site: Site) -> Identity:
    return site.node("rtmw://plant/hub")


def words(end: End) -> tuple[str, str]:
    assert end.error is not None
    return tls_in_words(end.error)


def test_two_nodes_of_a_site_know_each_other_by_name(site: Site, hub: Identity) -> None:
    press = site.node("rtmw://plant/press-7")
    server, client = handshake(hub.server_context(), press.client_context())
    assert (server.error, client.error) == (None, None)
    assert hub.peer_of(server.certificate).name == "rtmw://plant/press-7"
    assert hub.peer_of(server.certificate).node == "press-7"
    assert press.peer_of(client.certificate).name == "rtmw://plant/hub"


def test_a_session_is_of_tls_1_3_and_gives_no_tickets(hub: Identity) -> None:
    for context in (hub.server_context(), hub.client_context()):
        assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
        assert context.options & ssl.OP_NO_TICKET
    assert hub.server_context().num_tickets == 0


def test_a_client_without_a_certificate_is_refused(site: Site, hub: Identity) -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(site.folder / "plant-hub" / AUTHORITIES)
    here, there = handshake(hub.server_context(), client)
    assert words(here) == ("no certificate", "the peer has shown no certificate")
    assert words(there)[1] == "the peer wants a certificate, and this end has shown none"


def test_an_expired_certificate_is_refused_at_both_ends(site: Site, hub: Identity) -> None:
    old = site.node("rtmw://plant/old", now=time.time() - 100 * DAY_S)
    here, there = handshake(hub.server_context(), old.client_context())
    assert words(here)[0] == "expired"
    assert "renew it on the peer's host" in words(here)[1]
    assert "this node's certificate has expired: rtmw node keys renew" in words(there)[1]
    here, there = handshake(old.server_context(), hub.client_context())
    assert words(there)[0] == "expired"
    assert "rtmw node keys renew" in words(here)[1]


def test_a_certificate_that_is_not_yet_valid_is_told_as_a_fault_of_a_clock(site: Site, hub: Identity) -> None:
    early = site.node("rtmw://plant/early", now=time.time() + 10 * DAY_S)
    here, there = handshake(hub.server_context(), early.client_context())
    assert words(here)[0] == "not yet valid"
    for end in (here, there):
        assert "clock" in words(end)[1]
        assert time.strftime("%Y-%m-%d", time.gmtime()) in words(end)[1]


def test_an_authority_of_the_same_name_with_another_key_is_refused_by_both(
    hub: Identity, tmp_path: Path, site: Site
) -> None:
    forger = Site(tmp_path / "forged", site.name)
    assert forger.authority.subject == site.authority.subject
    keys = forger.keys("rtmw://plant/press-7")
    false = Identity.load(keys)
    put(keys / AUTHORITIES, c.pem([site.authority]))  # a public file
    here, there = handshake(hub.server_context(), knowing(false, site).client_context())
    assert words(here)[0] == "unknown authority"
    assert "compare fingerprints" in words(here)[1]
    assert "compare fingerprints" in words(there)[1]
    here, there = handshake(false.server_context(), hub.client_context())
    assert words(there)[0] == "unknown authority"


def knowing(one: Identity, site: Site) -> Identity:
    """The same, with trust in this site."""
    return Identity(one.folder, one.own, (site.authority,))


def test_an_authority_of_another_site_cannot_sign_names_of_this_one(hub: Identity, tmp_path: Path, site: Site) -> None:
    other = Site(tmp_path / "other", "cloud")
    false = other.node("rtmw://plant/press-7")
    both = Identity(hub.folder, hub.own, (site.authority, other.authority))
    here, there = handshake(both.server_context(), knowing(false, site).client_context())
    assert words(here) == ("unknown authority", words(here)[1])
    assert "another site" in words(here)[1]
    assert there.error is not None
    good = other.node("rtmw://cloud/ingest")
    here, there = handshake(both.server_context(), knowing(good, site).client_context())
    assert (here.error, there.error) == (None, None)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2])
def test_tls_before_1_3_is_refused_at_both_ends(site: Site, hub: Identity, version: ssl.TLSVersion) -> None:
    press = site.node("rtmw://plant/press-7")
    old = press.client_context()
    old.minimum_version = old.maximum_version = version
    here, there = handshake(hub.server_context(), old)
    assert words(here) == ("no TLS 1.3", "the peer offers only TLS before 1.3")
    assert "TLS 1.3" in words(there)[1]


def test_a_certificate_without_a_name_is_of_nobody(site: Site, hub: Identity) -> None:
    assert refused(hub, nameless(site))[0] == "no name"
    assert refused(hub, site.authority)[0] == "unknown authority"
    for name in ("rtmw://plant/*", "rtmw://plant/a b", "rtmw://PLANT/a", "rtmw://plant/a/b", "rtmw://plant/"):
        with pytest.raises(ValueError, match="is no name of a node"):
            parse_name(name)
    with pytest.raises(NotTrusted) as caught:
        hub.peer_of(None)
    assert caught.value.cause == "no certificate"
    with pytest.raises(NotTrusted):
        hub.peer_of(b"garbage")


def nameless(site: Site) -> c.Certificate:
    """Signed by the authority, and of nobody."""
    key = c.new_key()
    subject = c.x509.Name([])
    builder = c._builder(subject, site.authority.subject, key.public_key(), time.time(), 1)
    return builder.sign(site.key, c.hashes.SHA256())


def refused(identity: Identity, certificate: c.Certificate, now: float | None = None) -> tuple[str, str]:
    with pytest.raises(NotTrusted) as caught:
        identity.peer_of(c.der(certificate), now)
    return caught.value.cause, str(caught.value)


def test_a_chain_expires_with_its_first_certificate(tmp_path: Path) -> None:
    now = time.time()
    site = Site(tmp_path, now=now - (c.AUTHORITY_DAYS - 20) * DAY_S)
    hub, press = site.node("rtmw://plant/hub"), site.keys("rtmw://plant/press-7")
    certificate = c.x509.load_pem_x509_certificates((press / NODE).read_bytes())[0]
    assert hub.peer_of(c.der(certificate)).expires == pytest.approx(now + 20 * DAY_S, abs=60)
    assert hub.peer_of(c.der(certificate)).expires <= site.authority.not_valid_after_utc.timestamp()


def test_a_session_must_end_when_the_chain_expires_or_the_serial_is_revoked(site: Site, hub: Identity) -> None:
    press = site.node("rtmw://plant/press-7")
    server, _ = handshake(hub.server_context(), press.client_context())
    peer = hub.peer_of(server.certificate)
    assert hub.fault(peer) is None
    fault = hub.fault(peer, peer.expires)
    assert fault is not None
    assert fault.cause == "expired"
    reloaded = Identity.load(hub.folder, revoked=[peer.serial])
    fault = reloaded.fault(peer)
    assert fault is not None
    assert (fault.cause, f"{peer.serial:x}" in str(fault)) == ("revoked", True)
    with pytest.raises(NotTrusted, match="is revoked by the settings"):
        reloaded.peer_of(server.certificate)


def test_with_two_authorities_nodes_of_the_old_and_of_the_new_one_meet(tmp_path: Path) -> None:
    old, new = Site(tmp_path / "old"), Site(tmp_path / "new")
    both = [new.authority, old.authority]
    identities = []
    for site, name in ((old, "rtmw://plant/hub"), (new, "rtmw://plant/press-7")):
        keys = site.keys(name)
        put(keys / AUTHORITIES, c.pem(both))
        identities.append(Identity.load(keys))
    for server, client in (identities, identities[::-1]):
        here, there = handshake(server.server_context(), client.client_context())
        assert (here.error, there.error) == (None, None)
        assert server.peer_of(here.certificate).name == client.name
    alone = Identity.load(Site(tmp_path / "third").keys("rtmw://plant/x"))
    here, _ = handshake(identities[0].server_context(), alone.client_context())
    assert here.error is not None


@pytest.mark.parametrize("name", [NODE, AUTHORITIES])
def test_a_file_that_is_missing_is_named(site: Site, name: str) -> None:
    keys = site.keys("rtmw://plant/hub")
    (keys / name).unlink()
    with pytest.raises(KeysError, match=name):
        Identity.load(keys)


@pytest.mark.parametrize("data", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_whom_to_trust_is_asked_for_where_there_is_no_authority_to_read(site: Site, data: bytes) -> None:
    trusted = site.keys("rtmw://plant/hub") / AUTHORITIES
    todo = "rtmw node keys install FILE --trust, with the ca.pem of the host that signs"
    put(trusted, data)
    assert fault(trusted.parent) == f"{trusted} has no certificates in PEM that can be read: {todo}"
    trusted.unlink()
    assert fault(trusted.parent) == f"there is no {trusted}, which says whom to trust: {todo}"


def test_what_was_advised_for_a_file_of_authorities_mends_it(site: Site) -> None:
    hub, signing = site.keys("rtmw://plant/hub"), site.keys("rtmw://plant/signs") / AUTHORITIES
    put(hub / AUTHORITIES, b"")
    keys.install(hub, signing, time.time(), trust=True)
    assert Identity.load(hub).name == "rtmw://plant/hub"
    (hub / AUTHORITIES).unlink()
    keys.install(hub, signing, time.time(), trust=True)
    assert Identity.load(hub).name == "rtmw://plant/hub"


def fault(folder: Path) -> str:
    """Of keys that cannot be used."""
    with pytest.raises(KeysError) as caught:
        Identity.load(folder)
    return str(caught.value)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder to which other users come; into that of a test they may not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def being(uid: int) -> Iterator[None]:
    """This process is that user's, without the rights of root."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@needs_users
def test_keys_of_another_user_are_told_with_both_users_and_what_to_do(reachable: Path) -> None:
    folder = Site(reachable).keys("rtmw://plant/hub")
    with being(ALICE):
        said = fault(folder)
        whose = f"cannot be read by uid {ALICE}, as whom this runs: it is of uid 0. Run this as that user, or "
        assert said == f"{folder} {whose}chown -R {ALICE} {folder}"
        with pytest.raises(KeysError, match=rf"{AUTHORITIES} cannot be reached by uid {ALICE}, .*: run it as the user"):
            c.read(folder / AUTHORITIES, secret=False)
        assert "cannot be reached by uid" in fault(folder / "below")
        with pytest.raises(KeysError, match="cannot be read by uid"):
            keys.renew(folder, time.time())
    os.chown(folder, ALICE, ALICE)
    with being(ALICE):
        assert fault(folder) == f"{folder / NODE} {whose}chown {ALICE} {folder / NODE}"
    for file in folder.iterdir():
        os.chown(file, ALICE, ALICE)
    with being(ALICE):
        assert Identity.load(folder).name == "rtmw://plant/hub"
        (folder / NODE).chmod(0o200)
        said = f"{folder / NODE} cannot be read by its owner, uid {ALICE}: chmod u+rwX {folder / NODE}"
        assert fault(folder) == said


def test_key_files_that_others_can_read_are_refused_with_what_to_do(site: Site) -> None:
    keys = site.keys("rtmw://plant/hub")
    (keys / NODE).chmod(0o640)
    with pytest.raises(KeysError, match=rf"can be read by others \(mode 0640\): chmod 600 {keys / NODE}$"):
        Identity.load(keys)
    (keys / NODE).chmod(0o600)
    keys.chmod(0o755)
    with pytest.raises(KeysError, match=rf"is open to others \(mode 0755\): chmod 700 {keys}$"):
        Identity.load(keys)


def test_keys_that_do_not_belong_together_are_told(site: Site, tmp_path: Path) -> None:
    keys, other = site.keys("rtmw://plant/hub"), site.keys("rtmw://plant/other")
    mixed = c.key_pem(c.new_key()) + c.pem(c.x509.load_pem_x509_certificates((keys / NODE).read_bytes()))
    put(keys / NODE, mixed)
    with pytest.raises(KeysError, match="do not belong together"):
        Identity.load(keys)
    put(other / AUTHORITIES, c.pem([Site(tmp_path / "x").authority]))
    with pytest.raises(KeysError, match=r"no authority in .* has signed the certificate of rtmw://plant/other"):
        Identity.load(other)


def test_what_no_node_could_start_with_is_told(site: Site) -> None:
    old, early = (site.keys(f"rtmw://plant/n{at}", time.time() + at * DAY_S, 1) for at in (-30, 30))
    with pytest.raises(KeysError, match=r"n-30 expired 29 d.*: rtmw node keys renew"):
        Identity.load(old)
    with pytest.raises(KeysError, match=r"is not yet valid for 30 d: a clock is wrong, this host's says 20"):
        Identity.load(early)
    keys = site.keys("rtmw://plant/hub")
    put(keys / AUTHORITIES, c.pem(c.x509.load_pem_x509_certificates((keys / NODE).read_bytes())))
    with pytest.raises(KeysError, match="no authority's"):
        Identity.load(keys)


@pytest.mark.parametrize("data", [b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_file_is_told_and_its_content_is_not_shown(site: Site, data: bytes) -> None:
    keys = site.keys("rtmw://plant/hub")
    put(keys / NODE, data)
    with pytest.raises(KeysError) as caught:
        Identity.load(keys)
    assert "AAAA" not in str(caught.value)


def test_an_identity_shows_no_key(site: Site, hub: Identity) -> None:
    secret = (hub.folder / NODE).read_text().splitlines()[1]
    assert secret not in repr(hub)


def without(certificate: c.Certificate, extension: type[x509.ExtensionType], key: c.Key) -> c.Certificate:
    """The certificate, signed again with this key, but for one extension."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(certificate.subject)
        .issuer_name(certificate.issuer)
        .public_key(certificate.public_key())
        .serial_number(certificate.serial_number)
        .not_valid_before(certificate.not_valid_before_utc)
        .not_valid_after(certificate.not_valid_after_utc)
    )
    for one in certificate.extensions:
        if not isinstance(one.value, extension):
            builder = builder.add_extension(one.value, one.critical)
    return builder.sign(key, hashes.SHA256())


def test_a_certificate_without_the_key_id_of_its_authority_is_told_from_one_of_another_authority(
    site: Site, hub: Identity, tmp_path: Path
) -> None:
    other = Site(tmp_path / "other", site.name).node("rtmw://plant/press-7")
    here, _ = handshake(hub.server_context(), knowing(other, site).client_context())
    assert words(here)[0] == "unknown authority"
    assert "is signed by another authority" in words(here)[1]
    keys = site.keys("rtmw://plant/press-8")
    mine = Identity.load(keys)
    pem = (keys / NODE).read_bytes()
    bare = without(x509.load_pem_x509_certificate(pem), x509.AuthorityKeyIdentifier, site.key)
    put(keys / NODE, pem[: pem.index(b"-----BEGIN CERTIFICATE")] + c.pem([bare]))
    here, there = handshake(hub.server_context(), mine.client_context())
    assert words(here)[0] == "unfit certificate"
    assert "the key id of its authority is missing" in words(here)[1]
    assert "authority in ca.pem" not in words(here)[1]
    assert "its log has the reason" in words(there)[1]
    with pytest.raises(KeysError, match="the key id of its authority is missing, so peers refuse it"):
        Identity.load(keys)
