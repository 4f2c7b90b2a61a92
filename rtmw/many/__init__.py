"""One subscriber of many topics: PatternSubscriber in Python, the order of its messages in C (_merge.c)."""

from rtmw.shm import make_linkable

make_linkable()  # before _merge is imported, which calls the core
