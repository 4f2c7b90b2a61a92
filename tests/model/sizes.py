"""What of queue.pml is searched: sizes in which nothing may be found, and precautions whose lack must be."""

from __future__ import annotations

SMALL = {
    "a publisher, a subscriber, one of them dies": "FIRST=2 TAKES=2",
    "two publishers, a subscriber": "PUBLISHERS=2 FIRST=1 OTHER=1 TAKES=1 NO_DEATH",
    "a publisher of three, a subscriber that drops below an urgent message": "FIRST=3 TAKES=2 URGENT NO_DEATH",
}
LARGE = {
    "a publisher of three, a subscriber, one of them dies": "FIRST=3 TAKES=2",
    "a publisher of three, a subscriber that drops below an urgent message, one dies": "FIRST=3 TAKES=2 URGENT",
    "two publishers, one of them dies": "PUBLISHERS=2 FIRST=1 OTHER=1 TAKES=0",
    "two publishers of three, a subscriber": "PUBLISHERS=2 FIRST=2 OTHER=1 TAKES=1 NO_DEATH",
    "two publishers, a subscriber, one of them dies": "PUBLISHERS=2 FIRST=1 OTHER=1 TAKES=1",
}
WITHOUT = {
    "a generation in the link of the last": "NO_GENERATION PUBLISHERS=2 FIRST=2 OTHER=1 TAKES=1 NO_DEATH",
    "a second look at head by who holds": "NO_RECHECK FIRST=3 TAKES=1 NO_DEATH",
    "a payload that is written before the link": "NO_RELEASE FIRST=1 TAKES=1 NO_DEATH",
    "a second look at tail by who appends": "NO_TAIL_CHECK PUBLISHERS=2 FIRST=2 OTHER=1 TAKES=1 NO_DEATH",
    "a state that is QUEUED before tail names it": "NO_QUEUED_FIRST FIRST=1 TAKES=1 NO_DEATH",
    "a look at holders by who claims": "NO_HOLDERS FIRST=2 TAKES=1 NO_DEATH",
    "a look at the link of who died appending": "NO_LINK_CHECK FIRST=1 TAKES=0",
    "a sweep of what the dead held": "NO_SWEEP FIRST=1 TAKES=1",
    "a look ahead of the cursor by who drops": "NO_LOOK_AHEAD FIRST=3 TAKES=1 URGENT NO_DEATH",
}
