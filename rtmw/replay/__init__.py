"""Recordings that flow again: each message is published at its time.

_player     publishes, in a thread without Python (player.h)
"""
