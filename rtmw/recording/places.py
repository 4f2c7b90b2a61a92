"""Where files are: on this host, or at a place that a URI names, as s3://bucket/prefix. Needs pyarrow for the latter.

A file that is written here is there as a whole or not at all, and a folder may be kept for one program at a time.

A remote place is a Path, too: it has a name, a parent and parts, and its text is the URI. It does nothing with the file
system of this host; `rtmw.recording.files` opens the files there, and they are listed here.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, Self
from urllib.parse import unquote, urlsplit

from rtmw.disk import DISK, Disk
from rtmw.errors import RemoteFailed, RtmwError, needed
from rtmw.locks import FileLock
from rtmw.text.patterns import WILD

SCHEMES: Final = ("s3", "gs", "hdfs")
_URI: Final = re.compile(rf"({'|'.join(SCHEMES)}):/+")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_GIVE_UP: Final = {"gs": "?retry_limit_seconds=30"}
"""The limit on the library's attempts, by scheme: without it, a request to gs:// is tried for a quarter of an hour."""
_PIECE: Final = 8 << 20
_ADVICE: Final = (
    (
        "libhdfs|libjvm|CLASSPATH",
        "hdfs:// needs Hadoop on this host: libhdfs.so (ARROW_LIBHDFS_DIR or HADOOP_HOME), Java (JAVA_HOME) and "
        "Hadoop's jars (CLASSPATH=$(hadoop classpath --glob))",
    ),
    (
        "compiled without|Unrecognized filesystem type",
        "this PyArrow was built without that file system. Install one that has it, as that of PyPI",
    ),
    (
        "ACCESS_DENIED|FORBIDDEN|AccessDenied|403 Forbidden|HTTP status 403|INVALID_ACCESS_KEY|SIGNATURE|[Pp]ermission|"
        "credential|OAuth2",
        "the credentials are missing or refused. They come from the environment: AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of this host; for gs:// GOOGLE_APPLICATION_CREDENTIALS",
    ),
    (
        "NO_SUCH_BUCKET|NoSuchBucket",
        "there is no such bucket. Look at its name, at AWS_DEFAULT_REGION and at AWS_ENDPOINT_URL",
    ),
    (
        "NETWORK_CONNECTION|[Tt]imeout|timed out|resolve|curlCode|CURL error|SLOW_DOWN|HTTP status 5|INTERNAL_FAILURE|"
        "error sending request|HTTP error|Server returned non-2xx status code: 5",
        "the server cannot be reached, or does not answer in time. Look at the network and at AWS_ENDPOINT_URL, and "
        "try again",
    ),
)
"""The advice, by a word of an error of pyarrow or deltalake."""
_DRAWN: Final = re.compile("(\x1b\\[[0-9;]*m|↳|\\s)+")
"""Colours, arrows and lines in an error."""


class RemotePath(PosixPath):
    """A place that a URI names. Made by `place`."""

    def __str__(self) -> str:
        return f"{self.parts[0]}//{'/'.join(self.parts[1:])}" if self.parts else ""

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Self:
        return self

    @property
    def inside(self) -> str:
        """How its file system calls it."""
        if self.parts[0] == "hdfs:":
            return "/" + "/".join(self.parts[2:])
        bucket = self.parts[1].rpartition("@")[2]  # without who asks: gs://anonymous@bucket
        return "/".join((bucket, *self.parts[2:]))

    def below(self, inside: str) -> RemotePath:
        """The place that the file system of this place calls `inside`."""
        parts = inside.strip("/").split("/")
        return RemotePath(*self.parts[:2], *(parts if self.parts[0] == "hdfs:" else parts[1:]))

    @property
    def system(self) -> Any:
        """The place's `pyarrow.fs.FileSystem`. Raises NotInstalled, RemoteFailed."""
        needed("pyarrow", "PyArrow", "arrow", str(self))
        with said(self):
            return _system("//".join(self.parts[:2]), os.getpid())

    def info(self) -> Any:
        """The entry at this place, as `pyarrow.fs.FileInfo`. Raises RemoteFailed."""
        with said(self):
            return self.system.get_file_info(self.inside)

    def exists(self, **_: Any) -> bool:
        return self._kind() != "NotFound"

    def _kind(self) -> str:
        return str(self.info().type.name)

    def is_dir(self, **_: Any) -> bool:
        return self._kind() == "Directory"


@lru_cache(maxsize=16)
def _system(root: str, process: int) -> Any:
    """The library's file system for a bucket or a host. Each process has its own: connections do not outlive a fork."""
    from pyarrow import fs

    library: Any = fs
    return library.FileSystem.from_uri(root + _GIVE_UP.get(root.partition(":")[0], ""))[0]


def is_remote(source: str | os.PathLike[str]) -> bool:
    """Does it name a place that is not on this host?"""
    return _URI.match(os.fspath(source)) is not None


def place(source: str | os.PathLike[str]) -> Path:
    """A path, or a URI: s3://…, gs://…, hdfs://host:port/…, file://… Raises FileNotFoundError for one of others."""
    text = os.fspath(source)
    if is_remote(text):
        return RemotePath(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1] != "file":
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise FileNotFoundError(f"{text} is no place for recordings: these are paths, file://, {known}")
    return Path(unquote(urlsplit(text).path))


@contextmanager
def said(path: Path) -> Generator[None]:
    """Errors of the library, with what to do. Raises RemoteFailed, FileNotFoundError."""
    try:
        yield
    except (RemoteFailed, FileNotFoundError, FileExistsError):
        raise
    except _errors() as error:
        words = _DRAWN.sub(" ", str(error)).strip()
        advice = next((advice for pattern, advice in _ADVICE if re.search(pattern, words)), "")
        why = f"{advice}. The library says: {words}" if advice else words
        raise RemoteFailed(f"{path} cannot be reached: {why}") from error


def _errors() -> tuple[type[Exception], ...]:
    """The exceptions that the libraries raise; some of gs:// have no class in common but PyArrow's own."""
    arrow: Any = sys.modules.get("pyarrow")
    return (OSError, ValueError, NotImplementedError, *([] if arrow is None else [arrow.ArrowException]))


def recordings_at(path: RemotePath, suffix: str) -> list[Path]:
    """The file, the files of that suffix in a folder, however deep, or what a pattern means; none: there are none.

    As on this host, a part of a pattern is a part of the path, and `**` any number of them.
    """
    if path.info().type.name == "File":  # whose name may look like a pattern
        return [path]
    if WILD.isdisjoint(str(path)):
        return [found for found in _files(path) if found.name.endswith(suffix)]
    base = RemotePath(*_until_pattern(path.parts))
    return [
        found
        for found in _files(base)
        if _fits(found.parts, path.parts)
        or (found.name.endswith(suffix) and any(_fits(folder.parts, path.parts) for folder in found.parents))
    ]


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not parts and all(one == "**" for one in pattern)
    if pattern[0] == "**" and _fits(parts, pattern[1:]):
        return True
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern if pattern[0] == "**" else pattern[1:])


def _until_pattern(parts: Iterable[str]) -> list[str]:
    found: list[str] = []
    for part in parts:
        if not WILD.isdisjoint(part):
            break
        found.append(part)
    return found


def _files(path: RemotePath) -> list[RemotePath]:
    from pyarrow import fs

    library: Any = fs
    is_gs = path.parts[0] == "gs:"  # which tells a missing prefix in words only; s3:// would hide a missing bucket, too
    wanted = library.FileSelector(path.inside, allow_not_found=is_gs, recursive=True)
    try:
        with said(path):
            found = path.system.get_file_info(wanted)
    except FileNotFoundError:
        return []
    return [path.below(one.path) for one in found if one.type == library.FileType.File]


def send(source: Path, target: RemotePath) -> None:
    """Copy a file to a place, where it is whole or not at all, under its name. Raises RemoteFailed, OSError.

    A file that is there under that name is there until it is replaced.
    """
    system, is_object = target.system, target.parts[0] != "hdfs:"
    is_aside = not is_object or target.exists()  # an object is there with its last part; a file of HDFS from the first
    inside = f"{target.inside}.partial" if is_aside else target.inside
    with source.open("rb") as file:
        with said(target):
            if not is_object:
                system.create_dir(target.inside.rpartition("/")[0])
            stream = system.open_output_stream(inside)
        try:
            for data in _pieces(file, source):
                with said(target):
                    stream.write(data)
        except BaseException:
            with suppress(OSError, ValueError):  # the place has failed, and has nothing
                stream.close()  # which completes what was written: there is no other end
                system.delete_file(inside)
            raise
        with said(target):
            stream.close()
    if is_aside:
        with said(target):
            system.move(inside, target.inside)


def _pieces(file: IO[bytes], source: Path) -> Iterator[bytes]:
    try:
        while data := file.read(_PIECE):
            yield data
    except OSError as error:
        raise OSError(error.errno, "cannot be read to its end; nothing was sent", str(source)) from error


def modified_ns(path: Path) -> int | None:
    """When it was written last; None: it is not there."""
    if isinstance(path, RemotePath):
        written: int | None = path.info().mtime_ns
        return written
    return path.stat().st_mtime_ns if path.exists() else None


STANDARD_OUTPUT: Final = "-"


@contextmanager
def written_whole(path: Path, *, replace: bool = False, disk: Disk = DISK) -> Generator[Path]:
    """The name to write under meanwhile, a file or a folder beside `path`; nothing is left of it after an error.

    A file is on the disk before it has its name. Of a folder the name alone is made durable.
    Raises FileExistsError where `path` exists, before and after, unless it is to be replaced, FileNotFoundError for
    a folder that is not there, and for `-`.
    """
    if isinstance(path, RemotePath):
        with _sent_whole(path, replace) as temporary:
            yield temporary
        return
    refuse_standard_output(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    if not replace:
        _refuse(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    _remove(temporary)
    try:
        yield temporary
        if not replace:
            _refuse(path)
        if temporary.is_file():
            disk.sync_file(temporary)
        disk.rename(str(temporary), None, str(path), None)
        disk.sync_folder(path.parent)
    finally:
        _remove(temporary)


@contextmanager
def _sent_whole(path: RemotePath, replace: bool) -> Generator[Path]:
    """Writes to a remote place: the file or folder is made on this host, then sent. Each file of a folder appears as
    a whole."""
    if not replace:
        _refuse(path)
    with TemporaryDirectory(prefix="rtmw-send-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        if not replace:
            _refuse(path)
        for file in sorted(temporary.rglob("*")) if temporary.is_dir() else [temporary]:
            if file.is_file():
                send(file, path.joinpath(*file.relative_to(temporary).parts))


def refuse_standard_output(path: Path) -> None:
    """What is there as a whole or not at all is a file, and `-` is meant to be none. Raises FileNotFoundError."""
    if str(path) == STANDARD_OUTPUT:
        raise FileNotFoundError("this is not written to standard output: name a file instead of -")


def _refuse(path: Path) -> None:
    if path.exists() or (not isinstance(path, RemotePath) and path.is_symlink()):
        raise FileExistsError(f"{path} exists: name another one, or remove it")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Claim(FileLock):
    """Makes the folder if need be, and holds it until it is closed, or its process ends.

    Raises `held` where another program holds it. Where the file system knows no locks, nobody is refused.
    """

    def __init__(self, folder: Path, held: RtmwError) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        with suppress(OSError):
            if not self.take():
                self.close()
                raise held
