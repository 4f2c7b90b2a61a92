"""Links: topics between two nodes over TCP or TLS. C carries messages (link.h); Python decides who, and what.

Who, and over which connections:

    service.py        the links as the node sees them                   links.py       it listens and dials
    found.py          nodes that DDS shows                              places.py      where it listens
    handshake.py      two connections until a line has them             linked.py      one peer, its line and its routes
    library.py        loads the C of lines

What crosses, without I/O:

    control.py        hears and says                                    messages.py    what it says, as JSON
    routes.py         the routes in either direction                    lanes.py       which routes a topic needs

The line, without the interpreter (link.h has what its files ask of each other):

    out               out.c  pacing.c
    in                in.c
    both              link.h  line.c
    connections       channel.h  channel.c  tls.h  tls.c
    for Python        _line.c  _line.pyi
"""
