"""The recorder: a service on the bus that writes what flows on topics into recordings."""

from rtmw.recorder.recorder import RecordedTopic, Recorder, RecorderOptions, RecorderStats
from rtmw.recorder.uploads import UploadStats

__all__ = ["RecordedTopic", "Recorder", "RecorderOptions", "RecorderStats", "UploadStats"]
