"""QoS of the five kinds of real-time information (requirement P6), as keyword sets.

    rtmw.Publisher("pump/speed", Speed, **rtmw.profiles.SIGNAL.publisher)
    rtmw.Subscriber("pump/speed", Speed, **rtmw.profiles.SIGNAL.subscriber)

| kind    | what it is                        | what matters                                            |
|---------|-----------------------------------|---------------------------------------------------------|
| SIGNAL  | samples of a value, continuously  | the newest; old ones are worthless                      |
| COMMAND | an order to do something          | every one, in order, before anything else               |
| STATUS  | the present state of something    | the last one, also for who comes late                   |
| EVENT   | something happened                | every one while memory lasts; ahead of signals          |
| REQUEST | a question that wants an answer   | every one, and not after the asker has given up         |
"""

from rtmw.qos import Profile, Reliability

SIGNAL = Profile(
    publisher={"priority": 2, "lifetime": 1.0, "reliability": Reliability.TIMELY, "depth": 16},
    subscriber={"reliability": Reliability.TIMELY, "depth": 16},
)
COMMAND = Profile(
    publisher={"priority": 7, "lifetime": 5.0, "reliability": Reliability.RELIABLE, "depth": 64},
    subscriber={"reliability": Reliability.RELIABLE, "depth": 64, "lease": 5.0},
)
STATUS = Profile(
    publisher={"priority": 3, "reliability": Reliability.ADAPTIVE, "depth": 16, "history": 1},
    subscriber={"reliability": Reliability.ADAPTIVE, "depth": 16, "history": 1},
)
EVENT = Profile(
    publisher={"priority": 5, "reliability": Reliability.ADAPTIVE, "depth": 256},
    subscriber={"reliability": Reliability.ADAPTIVE, "depth": 256},
)
REQUEST = Profile(
    publisher={"priority": 4, "lifetime": 5.0, "reliability": Reliability.RELIABLE, "depth": 64},
    subscriber={"reliability": Reliability.RELIABLE, "depth": 64, "lease": 5.0},
)
