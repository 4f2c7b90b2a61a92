"""The core: the process that keeps the transfers of a host, hands them to receivers, and tells senders.

service     what programs ask, as steps without I/O
process     the service with a bus, a log and a clock
desk        what the core does for them
nodes       sessions with other nodes, and what is carried over them
network     what the settings say of them
"""
