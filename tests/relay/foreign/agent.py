"""An agent in Python without rtmw, from docs/relay.md alone: agent.py PORT ADDRESS TO [COUNT], as agent.c."""

import socket
import sys
import time

HEAD, ANSWERED = 36, 25


def frame(source: str, to: str, stamp: bytes, kind: bytes, data: bytes) -> bytes:
    first = b"\x02" + source.ljust(4).encode() + to.ljust(4).encode() + stamp
    rest = kind + b"I" + data + b"\n"
    return first + b"%03d" % (sum(first + rest) % 1000) + rest


def stamp() -> bytes:
    return b"%022d" % time.time_ns()


def next_frame(sock: socket.socket, buffer: bytearray) -> bytes:
    while True:
        least = HEAD + (ANSWERED if buffer[34:35] == b"A" else 0)
        end = buffer.find(b"\n", least)
        if len(buffer) > least and end >= 0:
            found = bytes(buffer[:end])
            del buffer[: end + 1]
            return found
        data = sock.recv(65536)
        if not data:
            sys.exit(3)
        buffer += data


def main(port: str, source: str, to: str, count: str = "0") -> None:
    buffer = bytearray()
    with socket.create_connection(("127.0.0.1", int(port))) as sock:
        for number in range(int(count)):
            sock.sendall(frame(source, to, stamp(), b"O", b"order %d" % number))
            said = next_frame(sock, buffer)[HEAD + ANSWERED :]
            if said:
                print(f"failed: {said.decode()}")
        if int(count):
            print(f"delivered {count}")
            return
        while True:
            came = next_frame(sock, buffer)
            print(f"got {came[HEAD:].decode()}", flush=True)
            sock.sendall(frame(source, to, stamp(), b"A", came[9:31] + came[31:34]))


if __name__ == "__main__":
    main(*sys.argv[1:])
