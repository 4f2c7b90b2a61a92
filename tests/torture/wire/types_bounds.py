"""One input at a time, within a bound of time and of memory, and with no error but those that are promised."""

from __future__ import annotations

import resource
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rtmw.errors import RtmwError

SECONDS: Final = 4.0
"""Of the processor's time in user mode, which other programs do not lengthen: some hundred times what is needed."""
MEGABYTES: Final = 400
"""By which the process may grow."""


T = TypeVar("T")


class Harm(Exception):
    """An input did what no input may."""


class _TooLong(BaseException):
    """Nothing that catches errors catches it."""


def _alarm(*_: Any) -> None:
    raise _TooLong


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Bounds:
    """Runs what reads an input."""

    def __init__(self) -> None:
        signal.signal(signal.SIGVTALRM, _alarm)
        self._most = _most_memory() + MEGABYTES
        self.inputs = 0

    def run(self, act: Callable[[], T], given: Any, *promised: type[Exception]) -> T | None:
        """What `act` gives; None when it refuses. Raises Harm, which shows what was given."""
        self.inputs += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return act()
        except (RtmwError, *promised) as error:
            if len(str(error)) > 2000:
                raise Harm(f"an error of {len(str(error))} characters for {_shown(given)}") from error
            return None
        except _TooLong as error:
            raise Harm(f"more than {SECONDS} s for {_shown(given)}") from error
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__} ({str(error)[:200]}) in {place.filename}:{place.lineno}"
            raise Harm(f"{words} escapes for {_shown(given)}") from error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if _most_memory() > self._most:
                raise Harm(f"more than {MEGABYTES} MB more for {_shown(given)}")


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) < 3000 else f"{text[:3000]}... of {len(text)} characters"


def main(attack: Callable[[int, float], str], mutants: dict[str, Callable[[], None]]) -> None:
    """`python -m tests.torture.wire.PART SEED SECONDS [MUTANT]`: the attack, or one on readers without a bound."""
    for name in sys.argv[3:]:
        mutants[name]()
    try:
        print(attack(int(sys.argv[1]), float(sys.argv[2])))
    except Harm as harm:
        sys.exit(f"HARM: {harm}")
