"""The control store of replicated logs: the one place that decides who is master (S4, S5, S7).

`Store` (store.py) reads and compares and changes one value a log, and each error is an answer. `SqliteStore` is a file,
for nodes of one host; `EtcdStore` is a cluster, for several. There are no leases and no watches: the safety of a log
rests on the version that each change compares.
"""
