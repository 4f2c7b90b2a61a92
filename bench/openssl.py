"""A newer OpenSSL than that of the system: the one that comes with psycopg, a client of PostgreSQL."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files

_PACKAGE = "psycopg-binary"


def newer() -> str:
    """The path of its libssl. ImportError if it is not installed."""
    try:
        found = [file for file in files(_PACKAGE) or () if file.name.startswith("libssl")]
    except PackageNotFoundError:
        raise ImportError(f"{_PACKAGE} is not installed") from None
    if not found:
        raise ImportError(f"{_PACKAGE} brings no OpenSSL here")
    return str(found[0].locate())
