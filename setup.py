"""Builds the C core and the codec, and the core as a library for programs in C; all else is in pyproject.toml.

RTMW_SANITIZE=thread or RTMW_SANITIZE=address builds it with that sanitizer.
RTMW_WHEEL=x86_64 or RTMW_WHEEL=aarch64 makes a wheel for Linux on that processor, from glibc 2.28 on (`make wheel`).
Without a C compiler the one inside the `ziglang` wheel is used, if that is installed.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import site
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

WHEEL = os.environ.get("RTMW_WHEEL")

NO_COMPILER = """
rtmw: a C compiler is needed to build the C core, and none was found (looked for {wanted}, and for the
ziglang wheel). Install one of the two, then run the same command again:
    apt install gcc python3-dev        (Debian, Ubuntu)
    pip install ziglang                (without root: a C compiler as a Python package)
"""

NO_HEADERS = """
rtmw: the header Python.h of this Python is missing (looked in {folder}); the shared-memory core cannot be built.
Install it, then run the same command again:
    apt install python3-dev            (Debian, Ubuntu)
"""


def usual_compilers() -> list[str]:
    """The compiler this Python was built with, then the usual names; CC of the environment overrules them all."""
    if os.environ.get("CC"):
        return [os.environ["CC"]]
    return [sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang"]


def find_zig() -> list[str] | None:
    """`zig cc` of the ziglang wheel; pip hides the site-packages from a build, so they are looked into by path."""
    folders = [*sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()]
    for folder in folders:
        zig = Path(folder, "ziglang", "zig")
        if os.access(zig, os.X_OK):
            return [str(zig), "cc"]
    return None


def portable_compiler(processor: str) -> list[str]:
    """Zig brings the C library of each age. 2.28 is the oldest with all that the core calls (`getrandom` came in 2.25),
    and numpy's wheels ask for it, too. Clang wants `crc32` named, which the core uses where the processor has it."""
    zig = find_zig()
    if zig is None or processor not in ("x86_64", "aarch64"):
        sys.exit(f"rtmw: RTMW_WHEEL={processor}: it must be x86_64 or aarch64, and needs: pip install ziglang")
    return [*zig, "-target", f"{processor}-linux-gnu.2.28", *(["-mcrc32"] if processor == "x86_64" else [])]


def find_compiler() -> list[str]:
    if WHEEL:
        return portable_compiler(WHEEL)
    wanted = usual_compilers()
    for command in map(shlex.split, wanted):
        if shutil.which(command[0]):
            return command
    zig = find_zig()
    if zig is None:
        sys.exit(NO_COMPILER.format(wanted=", ".join(dict.fromkeys(wanted))))
    return zig


def require_headers() -> None:
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").exists():
        sys.exit(NO_HEADERS.format(folder=folder))


def sanitizer_flags() -> list[str]:
    name = os.environ.get("RTMW_SANITIZE")
    if not name:
        return []
    if name not in ("thread", "address"):
        sys.exit(f"rtmw: RTMW_SANITIZE={name} is not known; use thread or address.")
    return [f"-fsanitize={name}", "-fno-omit-frame-pointer"]


LIBRARY = "rtmw.shm.librtmw"
PKG_CONFIG = """\
prefix=${{pcfiledir}}

Name: rtmw
Description: {description}
Version: {version}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -lrtmw -Wl,-rpath,${{prefix}}
"""


class BuildCore(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True  # distutils compares dates only, and would reuse objects built with another sanitizer

    def build_extensions(self) -> None:
        compiler = find_compiler()
        require_headers()
        if compiler != shlex.split(usual_compilers()[0]):  # not the one whose flags distutils has at hand
            self.compiler.set_executables(
                compiler=compiler,
                compiler_so=[*compiler, "-fPIC", "-fwrapv", "-DNDEBUG"],
                linker_so=[*compiler, "-shared", *(["-s"] if WHEEL else [])],
            )
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        if ext.name == LIBRARY:
            self.describe_library(Path(self.get_ext_fullpath(ext.name)).parent)

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        self.describe_library(Path(*LIBRARY.split(".")).parent)

    def get_ext_filename(self, fullname: str) -> str:
        """The library is no module of Python, so its name does not say for which one it is."""
        name = Path(super().get_ext_filename(fullname))
        if name.name.startswith("librtmw."):
            return str(name.with_name("librtmw.so"))
        return str(name).replace(platform.machine(), WHEEL) if WHEEL else str(name)

    def describe_library(self, folder: Path) -> None:
        """For `pkg-config`, beside header and library, so that all of them can be moved together."""
        about = self.distribution.metadata
        text = PKG_CONFIG.format(description=about.get_description(), version=about.get_version())
        folder.joinpath("rtmw.pc").write_text(text)


class BuildWheel(bdist_wheel):
    def finalize_options(self) -> None:
        if WHEEL:
            self.plat_name = f"manylinux_2_28_{WHEEL}"
        super().finalize_options()


def library(name: str) -> Extension:
    """The core without Python, as rtmw.h declares it. A process may use both this and the module `_core`: each attaches
    as a participant of its own, and handles of one mean nothing to the other. -Bsymbolic keeps the two apart."""
    sources = [path for path in sorted(glob("rtmw/shm/*.c")) if not Path(path).name.startswith("_")]
    core = extension(name)
    core.sources = sources
    core.extra_link_args = [*core.extra_link_args, "-Wl,-Bsymbolic"]
    return core


def extension(name: str, *shared: str) -> Extension:
    """The extension module of a package: all C files of its folder, and those that it shares with another."""
    folder = name.rpartition(".")[0].replace(".", "/")
    warnings = ["-Wall", "-Wextra"]
    return Extension(
        name,
        sources=[*sorted(glob(f"{folder}/*.c")), *shared],
        depends=sorted(glob("rtmw/**/*.h", recursive=True)),  # a few are of another part
        extra_compile_args=["-O2", "-std=gnu11", "-D_GNU_SOURCE", *warnings, "-fvisibility=hidden", *sanitizer_flags()],
        extra_link_args=sanitizer_flags(),
    )


ROUTES = ("rtmw/shm/crc32c.c", *sorted(glob("rtmw/net/route/*.c")))
"""What both carry messages with."""

setup(
    ext_modules=[
        extension("rtmw.shm._core"),
        library(LIBRARY),
        extension("rtmw.many._merge"),
        extension("rtmw.requests._calls"),
        extension("rtmw.relay._frames"),
        extension("rtmw.types._cdr"),
        extension("rtmw.log._log", "rtmw/shm/crc32c.c"),
        extension("rtmw.net.dds._engine", *ROUTES),
        extension("rtmw.net.link._line", *ROUTES),
        extension("rtmw.recording._mcap"),
        extension("rtmw.player._player"),
        extension("rtmw.columns._columns"),
        extension("rtmw.recorder._collector", "rtmw/recording/chunk.c"),
    ],
    cmdclass={"build_ext": BuildCore, "bdist_wheel": BuildWheel},
)
