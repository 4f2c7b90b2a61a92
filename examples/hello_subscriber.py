"""Print what `hello_publisher.py` says, until it has been silent for ten seconds."""

import rtmw

with rtmw.Subscriber("hello") as subscriber:
    try:
        while True:
            sample = subscriber.receive(timeout=10)
            print(sample.value.decode(), flush=True)
    except TimeoutError:
        print("nobody is there", flush=True)
