"""The pictures of docs/recording.md: `python -m tests.recording.report.pictures`, where Chromium is installed."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rtmw.recording.contents import Cause
from rtmw.recording.report.build import report
from tests.recording.report.made import told
from tests.recordings import BEGIN_NS, MS, SECOND, Maker

DOCS = Path(__file__).parents[3] / "docs"
END = 120 * SECOND
OUTAGE = range(40 * SECOND, 47 * SECOND)


def bad_night(path: Path) -> Path:
    """Two minutes: a camera that the disk was too slow for, an outage, a topic that dies, one that never came."""
    chance = random.Random(1)
    with Maker(path) as maker:
        topics = ("pump/speed", "camera/front", "river/level", "host/load", "pump/alarm")
        speed, camera, level, load, alarm = (maker.channel(topic) for topic in topics)
        due = [(at, speed, 24, 0) for at in range(0, END, MS) if at not in OUTAGE]
        due += [(at, level, 64, 0) for at in range(0, 83 * SECOND, 100 * MS)]
        due += [(at, load, 300, 0) for at in range(0, END, SECOND)]
        due += [(at, alarm, 2, 7) for at in sorted(chance.sample(range(END), 30))]
        frames = [at for at in range(0, 118 * SECOND, 33 * MS) if chance.random() > 0.017]
        due += [(at, camera, 20_000, 0) for at in frames]
        for at, channel, size, priority in sorted(due):
            latency = round(chance.lognormvariate(11.5, 0.5))
            numbers = {"sequence": at // (33 * MS) + 1} if channel == camera else {}
            maker.write(channel, at + latency, bytes(size), published=at, priority=priority, **numbers)
        maker.writer.missed(camera, Cause.OVERFLOWED, 41)
        maker.writer.missed(camera, Cause.MISSED, 3)
        ends = {"ended_ns": str(BEGIN_NS + END + SECOND // 2), "known": json.dumps([*topics, "valve/state"])}
        maker.writer.metadata("rtmw.recorder", told(**ends))
    return path


def pictured(page: Path, target: Path, width: int, height: int, options: tuple[str, ...] = ()) -> None:
    """Chromium has no window as narrow as a telephone: the page lies in a frame."""
    frame = f'<body style="margin:0"><iframe src="{page.name}" style="border:0" width={width} height={height}>'
    (page.parent / "frame.html").write_text(frame)
    asked = (f"--window-size={width},{height}", f"--screenshot={target}", "--hide-scrollbars", *options)
    command = ["chromium", "--headless", "--no-sandbox", *asked, (page.parent / "frame.html").as_uri()]
    subprocess.run(command, check=True, timeout=120, stderr=subprocess.DEVNULL)


def main() -> None:
    if shutil.which("chromium") is None:
        sys.exit("chromium is not installed: apt-get install chromium")
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        report(bad_night(Path(folder) / "night.mcap"), page)
        pictured(page, DOCS / "report-wide.png", 1120, 1950)
        dark = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
        pictured(page, DOCS / "report-narrow.png", 420, 1950, dark)


if __name__ == "__main__":
    main()
