"""Builds the C core and the codec; everything else about the package is in pyproject.toml.

RTMW_SANITIZE=thread or RTMW_SANITIZE=address builds it with that sanitizer.
Without a C compiler the one inside the `ziglang` wheel is used, if that is installed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import site
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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


def find_compiler() -> list[str]:
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
                linker_so=[*compiler, "-shared"],
            )
        super().build_extensions()


def extension(name: str, *shared: str) -> Extension:
    """The extension module of a package: all C files of its folder, and those that it shares with another."""
    folder = name.rpartition(".")[0].replace(".", "/")
    warnings = ["-Wall", "-Wextra"]
    return Extension(
        name,
        sources=[*sorted(glob(f"{folder}/*.c")), *shared],
        depends=sorted(glob(f"{folder}/*.h")),
        extra_compile_args=["-O2", "-std=gnu11", "-D_GNU_SOURCE", *warnings, "-fvisibility=hidden", *sanitizer_flags()],
        extra_link_args=sanitizer_flags(),
    )


setup(
    ext_modules=[
        extension("rtmw.shm._core"),
        extension("rtmw.types._cdr"),
        extension("rtmw.net._engine"),
        extension("rtmw.recording._mcap"),
        extension("rtmw.replay._player"),
        extension("rtmw.columns._columns"),
        extension("rtmw.record._collector", "rtmw/recording/chunk.c"),
    ],
    cmdclass={"build_ext": BuildCore},
)
