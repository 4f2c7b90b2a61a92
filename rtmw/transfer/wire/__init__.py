"""The protocol between the cores of two nodes, without I/O, on a stream of `rtmw.net.session` a direction.

`frames` are its bytes (docs/formats/transfer-format.md), its sizes, and the chain of hashes by which both sides know
that they mean the same bytes. `sending` and `receiving` are its two halves, `events` what goes into them and comes out,
and `under_way` the transfers in them. docs/design/transfer.md has the reasons.
"""
