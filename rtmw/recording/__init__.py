"""Recordings: MCAP files of what flowed on a bus, read and written without one."""
