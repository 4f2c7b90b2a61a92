"""Recordings: MCAP files of what flowed on a bus, read and written without one."""

from __future__ import annotations

from rtmw.recording.batch import Batch
from rtmw.recording.contents import Attachment, Channel, Chunk, Message, Missed, Schema
from rtmw.recording.recording import Recording
from rtmw.recording.recordings import Recordings
from rtmw.recording.writer import RecordingWriter

__all__ = [
    "Attachment",
    "Batch",
    "Channel",
    "Chunk",
    "Message",
    "Missed",
    "Recording",
    "RecordingWriter",
    "Recordings",
    "Schema",
]
