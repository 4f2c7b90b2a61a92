"""One subscriber of many topics: PatternSubscriber in Python, the order of its messages in C (_merge.c)."""
