"""Topics over DDS: Python decides which of them cross, and an engine in C carries them (engine.h).

Which topics cross, as Python decides:

    bridge.py         keeps the routes in step with both sides          routes.py      a topic in one direction and lane
    discovery.py      what DDS shows, and what of it is refused         idl_class.py   types
    own_topics.py     who the nodes are, and their programs             network.py     interfaces, hosts
    reconciliation.py what one has sent with what came at the other     succession.py  one node follows another
    wire.py           participant, QoS, names, partitions, policies     library.py     cyclonedds and the engine

The engine, without the interpreter (engine.h has what its files ask of each other):

    out               outbound.c  pacing.c
    in                inbound.c  sources.c  flow.c
    both              engine.h  zero_copy.c
    the DDS library   dds.h  library.c  abi_check.c  events.c
    for Python        _engine.c  _engine.pyi
"""
