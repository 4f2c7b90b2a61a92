"""What of the models is searched: sizes in which nothing may be found, and precautions whose lack must be."""

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

REPLICA_SMALL = {
    "three members, one switch": "L=2 M=1 EMAX=2",
    "a third that is not in sync": "L=2 M=1 EMAX=2 INIT_I=3",
    "a request of the store that is applied late": "L=2 M=1 EMAX=2 ORPHAN",
    "records that are shipped before they are synced": "L=2 M=1 EMAX=2 PIPELINE",
    "a node that lost a record and knows it": "L=2 M=1 EMAX=2 LOSETAIL",
}
REPLICA_LARGE = {
    "two switches": "L=2 M=1 EMAX=3",
    "two switches, a third that is not in sync": "L=2 M=1 EMAX=3 INIT_I=3",
    "two switches, and all can go on": "L=2 M=1 EMAX=3 PROBE=1",
    "two switches, and one can go on with the store": "L=2 M=1 EMAX=3 PROBE=2",
    "two messages": "L=2 M=2 EMAX=2",
}
REPLICA_WITHOUT = {
    "1: a look for the id before it is appended": "M_NO_DEDUPE L=2 M=1 EMAX=2",
    "2: a version that a change compares": "M_NO_VERSION L=2 M=1 EMAX=3",
    "3: a promise that is durable": "M_PROMISE_VOLATILE L=2 M=1 EMAX=3",
    "3: a cut by epochs": "M_TRUNC_BY_OFFSET L=2 M=1 EMAX=3",
    "4: a sync before the acknowledgement": "M_ACK_BEFORE_FSYNC L=2 M=1 EMAX=3",
    "5: acknowledgements of all in sync": "M_COMMIT_MAJORITY L=2 M=1 EMAX=3",
    "5: an epoch that the cache compares": "M_CACHE_NO_EPOCH L=2 M=1 EMAX=3",
    "6: a cut from the first record that differs from the cache": "M_APPEND_ONLY_BEYOND_END L=2 M=1 EMAX=3",
    "6: slices that are listed with the switch": "M_LIST_BEFORE_TX L=2 M=1 EMAX=3",
    "6: a candidate that is in sync": "M_NO_K_IN_I L=2 M=1 EMAX=3",
    "7: an epoch that is new": "PROBE=3 L=2 M=1 EMAX=3",
    "8: acknowledgements of who is pending": "M_NO_PENDING L=2 M=1 EMAX=3",
    "8: a look at the start of the epoch": "M_GROW_NO_EST L=2 M=1 EMAX=3",
    "8: a look at the checkpoint": "M_GROW_NO_CKPT L=2 M=1 EMAX=3",
    "8: a look at the commit point": "M_GROW_NO_COM L=2 M=1 EMAX=3",
    "10: the slowest of those in sync": "M_CKPT_NOT_MIN L=2 M=1 EMAX=2",
    "10: a cache that is kept up to the checkpoint": "M_TRIM_AT_COMMIT L=2 M=1 EMAX=3",
    "11: a fence": "M_ABSENT_FROM_LOG=1 L=2 M=1 EMAX=3",
    "11: a fence, though the store was asked": "M_ABSENT_FROM_LOG=2 NOFENCE L=2 M=1 EMAX=3",
    "12: a question to the store": "M_READ_NO_RECHECK L=2 M=1 EMAX=3",
    "12: a commit in the epoch": "M_READ_NO_OWN_COMMIT L=2 M=1 EMAX=3",
    "13: a candidate that lost nothing": "LOSETAIL M_LOSTTAIL_COUNTS L=2 M=1 EMAX=3",
    "13: acknowledgements of the new incarnation": "LOSETAIL M_LOSTTAIL_OLD_ACKS L=2 M=1 EMAX=3",
}
"""Each with the number of its rule in docs/design/replication.md."""
