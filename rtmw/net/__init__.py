"""Topics between hosts: `rtmw node` (node.py), and what it is made of.

settings ─► node ─► bridge (which topics cross) ─► routes ─► engine (C: carries messages)
              │        ├─ neighbours: the bus of this host      └─ DDS on one side, shared memory on the other
              │        └─ discovery: the DDS domain
              ├─ janitor: cleans up after the dead
              └─ beacon: peers, and the offset of their clocks
"""
