"""Cells of a notebook: messages as tables, live and recorded. Run it: python examples/notebook.py

In Jupyter each `# %%` is a cell, and the last value of a cell is shown: recordings, samples and statistics as tables.
Needs pandas: pip install 'rtmw[pandas]'
"""

# %%
import tempfile
from dataclasses import dataclass

import rtmw


@dataclass
class Speed:
    pump: rtmw.int32
    rpm: float


# %% Messages flow, and a recorder keeps them.
folder = tempfile.mkdtemp(prefix="monday-")
with (
    rtmw.Recorder("pump/speed", folder),
    rtmw.Publisher("pump/speed", Speed) as publisher,
    rtmw.Subscriber("pump/speed", Speed, depth=1000) as subscriber,
):
    for number in range(300):
        publisher.publish(Speed(number % 3, 1000.0 + number))
    samples = subscriber.take_many(1000)
    counters = subscriber.stats()

# %% Live messages as a table.
live = rtmw.table(samples).to_pandas()
print(live.groupby("pump")["rpm"].mean())

# %% A sample, and the counters of its subscriber.
last = samples[-1]
print(last)
print(counters.received, "received,", counters.missed, "missed")

# %% What was recorded: topics, types, messages, span, what is missing.
monday = rtmw.Recordings(folder)
print(monday)

# %% The rows of all files, in the order of their times.
frame = monday.to_pandas("pump/speed", columns=["log_time", "pump", "rpm"])
print(frame.tail(3))
