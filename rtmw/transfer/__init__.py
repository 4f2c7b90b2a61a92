"""Transfers (T): messages and files to one receiver. What there is so far is for the parts of rtmw, not for programs.

`header`, `paper` and `address` say what a transfer is as bytes, and whom it is for. `records`, `table`, `state`,
`undoing`, `machine` and `recovery` are transactions with savepoints on a log, without I/O; `store` runs them on a
real log, in one process. `files` reads and writes files in place; `wire` is the protocol between two nodes.
The reasons stand in docs/design/transfer.md.
"""
