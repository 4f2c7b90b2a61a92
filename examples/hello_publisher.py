"""Say hello ten times; `hello_subscriber.py` hears it."""

import time

import rtmw

with rtmw.Publisher("hello") as publisher:
    publisher.wait_for_subscribers(timeout=10)
    for number in range(10):
        publisher.publish(f"hello {number}".encode())
        time.sleep(0.1)
