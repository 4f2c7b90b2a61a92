"""Shared by topics over DDS and over links: look-ahead, depths and rates (sending.h), trailers and packs, clocks,
locks, how far lanes were carried, and a node's books by topic (topics.py)."""
