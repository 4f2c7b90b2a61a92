"""Types through the IDL compiler of cyclonedds: `python idlc_types.py`, from a folder to write to.

Reads JSON on standard input: name of a struct, its IDL, and a payload, again and again. Writes JSON: for each the
description of the class that the compiler made, and the payload as that class reads it and writes it again.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Any

from rtmw.types import resolve

COMPILER = Path(__file__).parents[2] / "idl_compiler.py"


def made(number: int, name: str, idl: str) -> Any:
    """The class that the compiler makes of a struct, in a folder of its own."""
    folder = Path(str(number)).resolve()
    folder.mkdir()
    Path(folder, "made.idl").write_text(idl)
    subprocess.run([sys.executable, COMPILER, "made.idl"], cwd=folder, check=True, timeout=60)
    module, *rest = name.split("::")
    for loaded in [known for known in sys.modules if known.split(".")[0] == module]:
        del sys.modules[loaded]
    sys.path[:0] = [str(folder)]
    return reduce(getattr, rest, importlib.import_module(module))


def main() -> None:
    answers: list[list[str]] = []
    for number, (name, idl, payload) in enumerate(json.load(sys.stdin)):
        cls = made(number, name, idl)
        again = cls.deserialize(bytes.fromhex(payload)).serialize()
        answers.append([resolve(cls).description.hex(), again.hex()])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
