"""Writes a recording of so many messages, in small chunks, as fast as it can."""

from __future__ import annotations

import sys

from rtmw.recording import RecordingWriter


def main() -> None:
    with RecordingWriter(sys.argv[1], chunk_bytes=20_000) as writer:
        channels = [writer.channel(f"topic/{number}", 0, "x") for number in range(3)]
        for row in range(int(sys.argv[2])):
            payload = b"%d" % row * (1 + row % 50)
            writer.write(channels[row % 3], payload, log_time=row, publish_time=row, sequence=row)


if __name__ == "__main__":
    main()
