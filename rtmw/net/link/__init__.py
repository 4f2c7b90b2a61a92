"""Links: topics between two nodes over TCP or TLS. C carries messages (link.h); Python decides who, and what."""
