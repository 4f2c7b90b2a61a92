"""The core: the process that keeps the transfers of a host, hands them to receivers, and tells senders.

service     what programs ask, as steps without I/O
process     the service with a bus, a log and a clock
inboxes     takes letters, and settles them
peers       sessions with other nodes, and the work of the core for what is carried over them
report      what people and tools are shown
"""
