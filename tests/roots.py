"""A file system of a test's own that has a Python, packages that the test names, and nothing else: no compiler.

Mounts and chroot are real, in a mount namespace that ends with its program. Python and the C library come from this
machine. The packages are those of this environment, file by file as their wheels listed them, in a new environment;
rtmw is installed there by pip, from a wheel.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterable
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement

from tests import namespaces

ENVIRONMENT = "/env"
PYTHON = f"{ENVIRONMENT}/bin/python"
ENVIRON = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "RTMW_DOMAIN": "7"}
COMPILERS = ("cc", "gcc", "clang", "zig", "ld", "as")


def with_all_they_need(names: Iterable[str]) -> set[str]:
    """The packages and those that they require here, without extras."""
    found, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            wanted = map(Requirement, requires(name) or ())
            left += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


class Root:
    """Such a file system, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        alone = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._enter = ["unshare", *alone, "--mount", "--propagation", "private", "sh", "-ec"]
        namespaces.require(*self._enter, f"mount -t tmpfs tmpfs {shlex.quote(str(folder))}")
        for name in ("dev/shm", "proc", "tmp", "usr/bin"):
            (folder / name).mkdir(parents=True)
        self._mounts = [*self._of_this_machine(), "mount -t tmpfs tmpfs dev/shm"]
        self.run("-m", "venv", "--without-pip", "--copies", ENVIRONMENT, python=self._python)
        self.site = self.program("import sys; print(sys.path[-1])").strip()
        """Where its packages lie, as its programs see it."""

    def _of_this_machine(self) -> list[str]:
        """Commands that mount Python, its standard library, the C library, and what the kernel shows."""
        for link in (Path("/lib"), Path("/lib64")):
            if link.is_symlink():
                (self._folder / link.name).symlink_to(os.readlink(link))
        self._python = os.path.realpath(sys.executable)
        libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
        kept = [self._python, sysconfig.get_path("stdlib"), os.path.dirname(libc), "/dev/null", "/dev/urandom", "/proc"]
        if sysconfig.get_config_var("Py_ENABLE_SHARED"):
            kept.append(sysconfig.get_config_var("LIBDIR"))
        loader = Path("/lib64").resolve()
        return [self._mount(Path(one)) for one in dict.fromkeys([*kept, str(loader)]) if Path(one).exists()]

    def _mount(self, path: Path) -> str:
        target = self._folder / path.relative_to("/")
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        return f"mount --rbind {shlex.quote(str(path))} {shlex.quote(str(path.relative_to('/')))}"

    def add(self, names: Iterable[str]) -> None:
        """Put these packages of ours into its environment."""
        site = self._folder / self.site[1:]
        for name in names:
            of = distribution(name)
            for file in of.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    (site / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(str(of.locate_file(file)), site / file)

    def install(self, wheel: Path) -> None:
        """pip installs it there. It fetches nothing, so what the wheel requires has to be there."""
        shutil.copy(wheel, self._folder)
        self.run("-m", "pip", "--no-cache-dir", "install", "--no-compile", "--no-index", "--no-deps", f"/{wheel.name}")

    def run(self, *arguments: str, python: str = PYTHON, status: int = 0) -> str:
        """What a program prints, run by its Python. /dev/shm is empty when it begins."""
        inside = shlex.join(["exec", "chroot", ".", python, *arguments])
        script = "\n".join([f"cd {shlex.quote(str(self._folder))}", *self._mounts, inside])
        done = subprocess.run([*self._enter, script], env=ENVIRON, capture_output=True, text=True, timeout=100)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def program(self, source: str, status: int = 0) -> str:
        """What a program prints, from its source."""
        return self.run("-c", textwrap.dedent(source), status=status)
