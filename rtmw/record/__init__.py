"""The recorder: a service on the bus that writes what flows on topics into recordings."""

from rtmw.record.recorder import Recorder, RecorderOptions
from rtmw.record.stats import RecordedTopic, RecorderStats
from rtmw.record.uploads import UploadStats

__all__ = ["RecordedTopic", "Recorder", "RecorderOptions", "RecorderStats", "UploadStats"]
