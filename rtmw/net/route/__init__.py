"""Shared by topics over DDS and over links: look-ahead, trailers, rates, clocks, locks, how far lanes were carried."""
