"""Makes the environment in which benches run: `python -m bench.environment FOLDER`, called by make.

Everything in requirements.txt, and what rtmw itself needs, is installed in one go; if that fails, line by line, so that
a peer that does not install here does not stop the rest: the bench marks it as not run.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements() -> list[str]:
    lines = (line.partition("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines())
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [line for extra in ("spark", "link") for line in project["optional-dependencies"][extra]]
    return [line for line in lines if line] + project["dependencies"] + extras


def install(python: Path, *wanted: str) -> bool:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    return subprocess.run(command).returncode == 0


def main() -> int:
    folder = Path(sys.argv[1])
    if not (folder / "bin" / "pip").exists():
        venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    if install(python, *requirements()):
        return 0
    missing = [line for line in requirements() if not install(python, line)]
    print(f"Not installed, and so not measured: {', '.join(missing)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
