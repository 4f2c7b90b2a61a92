"""The replicated log: one master appends, slaves hold the same bytes, and a control store decides who is master.

`protocol.py` holds the rules as steps without I/O, `words.py` what comes in and goes out of them. The pages are
docs/design/replication.md, and docs/guarantees.md for what is proved of them.
"""
