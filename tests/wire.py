"""HTTP byte by byte, for tests of what a well-behaved client never sends."""

import socket

from harness import PATIENCE


class WireReply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body!r}>"


class Wire:
    """One TCP connection. Nothing is sent or read but by a call."""

    def __init__(self, port, timeout=60):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE * timeout)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part.encode() if isinstance(part, str) else part)

    def request(self, method, path, headers=(), body=b""):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in dict(headers).items())]
        self.send("\r\n".join(lines) + "\r\n\r\n", body)

    def fill(self):
        data = self.socket.recv(65536)
        self.buffer += data
        return bool(data)

    def until(self, marker):
        while marker not in self.buffer:
            assert self.fill(), f"the connection ended; so far {self.buffer!r}"
        found, _, self.buffer = self.buffer.partition(marker)
        return found

    def reply(self, head=False):
        """The next reply; without a body where it answers HEAD. 1xx replies are replies of their own."""
        status, *lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = 0 if head else int(headers.get("content-length", 0))
        while len(self.buffer) < size:
            assert self.fill(), "the connection ended within a body"
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return WireReply(int(status.split()[1]), headers, body)

    def ended(self):
        """Reads to the end: true if nothing more came."""
        while self.fill():
            pass
        return self.buffer == b""
