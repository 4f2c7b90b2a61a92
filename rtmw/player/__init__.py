"""Recordings that flow again: `rtmw.Replay` publishes what they hold, each message at its time.

replay      what people use; puts the rest together
tracks      which topics are played, with which type and QoS (qos), and which are not, and why
latched     what was valid at the moment from which it is played
cues        what the player has to know of each message
feeder      prepares what comes next, in a thread of its own
_player     publishes, in a thread without Python (player.h)
"""

from rtmw.player.replay import Replay, ReplayStats, TopicReplayed
from rtmw.player.tracks import QosOptions

__all__ = ["QosOptions", "Replay", "ReplayStats", "TopicReplayed"]
