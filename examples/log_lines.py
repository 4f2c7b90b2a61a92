"""Python's logging on a topic: the lines of all programs, for people (`rtmw log-lines`) and for programs."""

from __future__ import annotations

import logging

import rtmw

logging.basicConfig(level=logging.INFO, handlers=[rtmw.LogHandler("log/pump")])

with rtmw.PatternSubscriber("log/#", rtmw.LogLine) as lines:
    logging.getLogger("pump.valve").warning("valve %d sticks", 7)
    try:
        raise ValueError("no pressure")
    except ValueError:
        logging.getLogger("pump").exception("stopped")
    for _ in range(2):
        line = lines.receive(timeout=5).value
        print(line.program, line.level_name, line.logger, line.message, line.exception[-23:])
