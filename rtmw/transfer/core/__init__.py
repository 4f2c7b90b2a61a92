"""The core: the process that keeps the transfers of a host, hands them to receivers, and tells senders.

desk        what programs ask, as steps without I/O
process     the desk with a bus, a log and a clock
peers       the seam to the cores of other nodes
"""
