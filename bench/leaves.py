"""Two NATS servers, one on each host, the second a leaf of the first: what NATS has between sites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.cable import Place
from bench.certificates import AUTHORITY, CERTIFICATE, KEY, certificates
from bench.log_peers.nats import program
from bench.log_peers.server import free_port, server

SERVER = """\
host: 127.0.0.1
port: {port}
max_payload: 8MB
{streams}
leafnodes {{ {leaf} }}
"""
STREAMS = """\
server_name: {name}
jetstream {{ store_dir: "{folder}", domain: {name}, sync_interval: always }}
"""
NAMES = ("first", "second")
"""Of the servers, and of their domains of JetStream."""
FILES = {"cert_file": CERTIFICATE, "key_file": KEY, "ca_file": AUTHORITY}


def place_of(folder: str | Path, is_first: bool) -> Path:
    """The file that says at which port the server of a host listens."""
    return Path(folder, f"nats-{NAMES[not is_first]}")


@contextmanager
def leaves(folder: Path, places: tuple[Place, Place], has_tls: bool, *, has_streams: bool = False) -> Iterator[None]:
    """Until the block ends. Programs find the server of their host by `place_of`. `has_streams`: both keep streams, and
    sync before they acknowledge."""
    host, port = places[0].address, free_port()
    listens = f'host: "{host}", port: {port}, {_tls(has_tls, ", verify: true")}'
    connects = f'remotes: [ {{ url: "nats-leaf://{host}:{port}", {_tls(has_tls)} }} ]'
    with ExitStack() as stack:
        for is_first, leaf in ((True, listens), (False, connects)):
            stack.enter_context(_server(folder, places[not is_first], is_first, leaf, has_streams))
        yield


def _tls(has_tls: bool, more: str = "") -> str:
    if not has_tls:
        return ""
    files = ", ".join(f'{name}: "{certificates() / file}"' for name, file in FILES.items())
    return f"tls {{ {files}{more} }}"


@contextmanager
def _server(folder: Path, place: Place, is_first: bool, leaf: str, has_streams: bool) -> Iterator[None]:
    own = folder / f"nats-server-{int(is_first)}"
    own.mkdir()
    port = free_port()
    settings = own / "settings"
    streams = STREAMS.format(name=NAMES[not is_first], folder=own / "streams") if has_streams else ""
    settings.write_text(SERVER.format(port=port, leaf=leaf, streams=streams))
    place_of(folder, is_first).write_text(str(port))
    command = [*place.enter, program(), "--config", str(settings)]
    with server(command, own, lambda: "Server is ready" in (own / "printed").read_text(errors="replace")):
        yield
