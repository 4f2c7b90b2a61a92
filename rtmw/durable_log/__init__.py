"""Durable logs as programs use them: append, read, wait. How a log lies on the disk is below, in rtmw.log."""
