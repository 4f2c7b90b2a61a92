"""Transfers between the cores of two nodes, over sessions: `wire` with sockets, files and a log.

`peer` drives the protocol with one node, whose halves are `outbound` and `inbound`; `half` has what they share, and
what a core does for them. `content` reads what is sent, and writes what comes. `journal` keeps what a restart needs to
go on.
"""
