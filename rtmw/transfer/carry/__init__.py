"""Transfers between the cores of two nodes, over sessions: `wire` with sockets, files and a log.

`desk` is what a core does for it; `peer` drives the protocol with one node; `content` reads what is sent, `arrival`
writes what comes, and `journal` keeps what a restart needs to go on.
"""
