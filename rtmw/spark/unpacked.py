"""The packages of Spark as they were installed, in place of the archives of them.

Spark puts pyspark.zip, the zip of py4j and a jar in front of the path of its workers. Python compiles what it imports
from an archive anew in each process, and reads the directories of all archives again when a worker gets its first task.
Installed by pip, the same modules lie unpacked and compiled around the archives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from zipimport import zipimporter


def prefer_unpacked() -> None:
    """Takes the archives off `sys.path`, if nothing has been imported from them and the same is there unpacked."""
    if "pyspark" not in sys.modules:
        sys.path[:] = without_archives(sys.path)
        sys.modules.pop("org", None)  # the jar's, where the standard library looks for Jython
        # Finders of archives would read these again, although no path names them.
        kept = {one: finder for one, finder in sys.path_importer_cache.items() if not isinstance(finder, zipimporter)}
        sys.path_importer_cache.clear()
        sys.path_importer_cache.update(kept)


def without_archives(path: Iterable[str]) -> list[str]:
    """A path without the archives of a PySpark and a Py4J that lie unpacked in one of its folders."""
    found = [*path]
    zips = [one for one in found if one.endswith("pyspark.zip")]
    needless = {archive for zip in zips for archive in found if _is_unpacked(Path(zip), Path(archive), found)}
    return [one for one in found if one not in needless]


def _is_unpacked(zip: Path, archive: Path, path: list[str]) -> bool:
    """`zip`: of PySpark, which its package has in python/lib when pip has installed it."""
    package = zip.parent.parent.parent
    if package.name != "pyspark" or str(package.parent) not in path or not (package / "__init__.py").is_file():
        return False
    if archive.parent == package / "jars":
        return archive.suffix == ".jar"  # it has no modules
    if archive.name.startswith("py4j-"):
        return archive.parent == zip.parent and _has(package.parent, archive.name.removesuffix("-src.zip"))
    return archive == zip


def _has(folder: Path, release: str) -> bool:
    """Pip has installed this release of Py4J here."""
    return (folder / f"{release}.dist-info").is_dir() and (folder / "py4j" / "__init__.py").is_file()
