"""The recorder: a service on the bus that writes what flows on topics into recordings."""

from rtmw.recorder.files import UploadStats
from rtmw.recorder.recorder import RecordedTopic, Recorder, RecorderOptions, RecorderStats

__all__ = ["RecordedTopic", "Recorder", "RecorderOptions", "RecorderStats", "UploadStats"]
