"""rsync: what it takes to bring a file from one folder into another one over TCP, or over ssh."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.log_peers.server import answers, free_port, server

DAEMON, SSH = "rsync, daemon", "rsync over ssh"
NOBODYS = Path("/run/sshd")
"""An empty folder, without which sshd does not start for root: its service makes it, where one runs."""
SETTINGS = """\
port = {port}
address = 127.0.0.1
use chroot = no
uid = {uid}
gid = {gid}
pid file = {folder}/pid
[files]
path = {folder}/there
read only = no
"""


def program(name: str, package: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
    if found is None:
        raise ImportError(f"apt-get install {package}")
    return found


def took(words: list[str], *how: str) -> float:
    """Seconds from the start of the command to its end: the file is there then, and on the disk."""
    begin = time.perf_counter()
    subprocess.run([program("rsync", "rsync"), "--whole-file", "--fsync", *how, *words], check=True)
    return time.perf_counter() - begin


@contextmanager
def daemon(folder: Path) -> Generator[str]:
    """Gives where it takes files, which come into `there`, a folder of this one."""
    (folder / "there").mkdir()
    port, settings = free_port(), folder / "rsyncd.conf"
    settings.write_text(SETTINGS.format(port=port, folder=folder, uid=os.getuid(), gid=os.getgid()))
    command = [program("rsync", "rsync"), "--daemon", "--no-detach", "--config", str(settings)]
    with server(command, folder, answers(socket.AF_INET, ("127.0.0.1", port))):
        yield f"rsync://127.0.0.1:{port}/files/"


@contextmanager
def over_ssh(folder: Path) -> Generator[tuple[str, str]]:
    """The shell that rsync is to use, and where it takes files. A server of its own, with keys of its own."""
    (folder / "there").mkdir()
    port = free_port()
    make = program("ssh-keygen", "openssh-client")
    for name in ("host", "user"):
        subprocess.run([make, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    options = {
        "ListenAddress": "127.0.0.1", "Port": port, "HostKey": folder / "host", "StrictModes": "no", "UsePAM": "no",
        "AuthorizedKeysFile": folder / "authorized", "PidFile": "none",
    }  # fmt: skip
    command = [program("sshd", "openssh-server"), "-D", "-e", "-f", "/dev/null"]
    if os.getuid() == 0:
        NOBODYS.mkdir(0o755, exist_ok=True)
    command += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    shell = f"ssh -p {port} -i {folder / 'user'} {trust}"
    with server(command, folder, answers(socket.AF_INET, ("127.0.0.1", port))):
        yield shell, f"127.0.0.1:{folder / 'there'}/"
