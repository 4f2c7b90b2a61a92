"""`rtmw node`, the daemon that carries topics between hosts (node.py), and what it is made of.

settings ─► node ─► dds/bridge (which topics cross) ─► dds/routes ─► dds/engine.h (C: carries messages)
              │        ├─ neighbours: the bus of this host          └─ DDS on one side, shared memory on the other
              │        └─ dds/discovery: the DDS domain
              ├─ janitor: cleans up after the dead
              ├─ dds/own_topics: peers, and the offset of their clocks
              ├─ known_nodes: whom it hears, and by which ways it meets them
              └─ status, metrics: what it says of itself
"""
