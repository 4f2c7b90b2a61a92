"""Three nodes keep one log. The one that is its master is killed in the middle of appends: nothing is lost.

    python examples/replicated_log.py

Each node is what `rtmw node` starts, with a settings file and a folder of its own; they share a file for who is master.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rtmw

RTMW = [sys.executable, "-m", "rtmw"]
COUNT = 400


def write_settings(folder: Path) -> dict[str, str]:
    """The settings of each node; where each listens."""
    free = [socket.create_server(("127.0.0.1", 0)) for _ in "abc"]
    places = {name: f"127.0.0.1:{one.getsockname()[1]}" for name, one in zip("abc", free, strict=True)}
    for one in free:
        one.close()
    for name, place in places.items():
        (folder / f"{name}.toml").write_text(
            f"""
            name = "{name}"
            serve = ["log"]
            data = "{name}"
            [log]
            listen = "{place}"
            connect = {json.dumps([other for other in places.values() if other != place])}
            [control]
            store = "sqlite:control.db"
            """
        )
    return places


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.out").open("wb") as out:
        command = [*RTMW, "node", "--config", str(folder / f"{name}.toml")]
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)


def asked(*arguments: str) -> str:
    """What the command says, as soon as the nodes know each other."""
    end = time.monotonic() + 30
    while True:
        found = subprocess.run([*RTMW, "log", *arguments], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout
        if time.monotonic() > end:
            raise SystemExit(found.stderr)
        time.sleep(0.1)


async def append_all(log: rtmw.Log[bytes], begun: asyncio.Event) -> list[rtmw.Appended]:
    answers = list[rtmw.Appended]()
    for number in range(COUNT):
        answers.append(await log.append_async(b"order %d" % number))
        if number == COUNT // 4:
            begun.set()
    return answers


async def run(places: dict[str, str], nodes: dict[str, subprocess.Popen[bytes]]) -> None:
    with rtmw.Log.connect("orders", nodes=list(places.values())) as log:
        begun = asyncio.Event()
        appending = asyncio.create_task(append_all(log, begun))
        await begun.wait()
        status = await asyncio.to_thread(asked, "status", "orders", "--json", "--node", places["a"])
        master = json.loads(status)["master"]
        os.killpg(nodes[master].pid, signal.SIGKILL)
        print(f"node {master} was the master, and was killed")
        answers = await appending
        found = {record.position: record.data for record in log.read()}
        kept = sum(found.get(one.position) == b"order %d" % number for number, one in enumerate(answers))
        print(f"{len(answers)} appends were answered, {kept} are in the log, which has {len(found)} records")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = write_settings(folder)
        nodes = {name: start(folder, name) for name in places}
        try:
            print(asked("create", "orders", "--members", "a,b,c", "--node", places["a"]).strip())
            asyncio.run(run(places, nodes))
        finally:
            for node in nodes.values():
                node.terminate()
            for node in nodes.values():
                node.wait()


if __name__ == "__main__":
    main()
