"""Requests to the server: errors as ImmureError, a server that is busy tried again, event streams read one by one."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")


class ImmureError(Exception):
    """An error of the server's, before anything ran; or, with status 0, no reply. `field`: which of the request is wrong."""

    def __init__(self, message: str, status: int = 0, code: str = "unreachable", field: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.code, self.field, self.retry_after = message, status, code, field, retry_after


class Hangup:
    """Ends a request from another thread: its connection is closed. `impatient`: a busy server is not tried again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended, self.impatient = threading.Event(), threading.Event()
        self.sock: socket.socket | None = None

    def follow(self, sock: socket.socket) -> None:
        with self.lock:
            self.sock = sock
        if self.ended.is_set():
            self()

    def __call__(self) -> None:
        self.ended.set()
        self.impatient.set()
        with self.lock:
            sock = self.sock
        if sock:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of the connection, not of its TLS
            except OSError:
                pass  # it was closed meanwhile


def _error_of(response: http.client.HTTPResponse) -> ImmureError:
    seconds = response.headers.get("Retry-After", "")
    retry_after = float(seconds) if seconds.replace(".", "", 1).isdigit() else None
    try:
        body = json.loads(response.read())
    except ValueError:
        body = {}  # of a proxy on the way, perhaps
    return ImmureError(body.get("error") or f"HTTP {response.status}", response.status, body.get("code", "http_error"), body.get("field"), retry_after)


class Http:
    def __init__(self, url: str, key: str | None, timeout: float | None, retry_budget: float, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {url.rpartition('@')[2]!r} is not like http://127.0.0.1:8080")
        key = key or unquote(parts.password or "")
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self.prefix, self.timeout, self.retry_budget, self.context = parts.path.rstrip("/"), timeout, retry_budget, context
        self.host, self.port, self.tls = parts.hostname, parts.port, parts.scheme == "https"
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.idle: list[http.client.HTTPConnection] = []
        self.lock = threading.Lock()

    def _connect(self) -> http.client.HTTPConnection:
        timeout = {} if self.timeout is None else {"timeout": self.timeout}
        tls = {"context": self.context} if self.tls else {}
        connection = (http.client.HTTPSConnection if self.tls else http.client.HTTPConnection)(self.host, self.port, **tls, **timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _patiently(self, once: Callable[[], T], hangup: Hangup | None) -> T:
        """Only what was refused for want of room is tried again."""
        until = time.monotonic() + self.retry_budget
        while True:
            try:
                return once()
            except ImmureError as error:
                again = error.status in (429, 503) and error.retry_after and time.monotonic() + error.retry_after <= until
                if not again or (hangup or Hangup()).impatient.wait(error.retry_after):
                    raise

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str], hangup: Hangup | None) -> http.client.HTTPResponse:
        connection = None
        try:
            connection = self._connect()
            if hangup:
                hangup.follow(connection.sock)
            connection.request(method, self.prefix + path, body, {**self.headers, **headers})
            response = connection.getresponse()
            if not 200 <= response.status < 300:
                raise _error_of(response)
            return response
        except (OSError, http.client.HTTPException) as error:
            if connection:
                connection.close()
            raise ImmureError(f"{method} {path}: no reply from {self.url}: {error}") from error

    def send(self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None, hangup: Hangup | None = None,
             ) -> http.client.HTTPResponse:
        """-> the response of a request that the server has taken."""
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {**({"Content-Type": kind} if data is not None else {}), **(headers or {})}
        return self._patiently(lambda: self._once(method, path, data, all_headers, hangup), hangup)

    def json(self, method: str, path: str, body: Any = None, *, hangup: Hangup | None = None) -> Any:
        with self.send(method, path, body, hangup=hangup) as response:
            data = response.read()
        return json.loads(data) if data else None

    def _answer_once(self, path: str, data: bytes) -> None:
        with self.lock:
            kept = self.idle.pop() if self.idle else None
        for connection in kept, None:
            try:
                connection = connection or self._connect()
                connection.request("POST", self.prefix + path, data, {**self.headers, "Content-Type": "application/json"})
                response = connection.getresponse()
                error = None if response.status in (200, 404, 409) else _error_of(response)
                response.read()
            except (OSError, http.client.HTTPException) as failure:
                if connection:
                    connection.close()
                if kept and connection is kept:
                    continue  # it was closed while it was idle
                raise ImmureError(f"POST {path}: no reply from {self.url}: {failure}") from failure
            if error:
                connection.close()
                raise error
            with self.lock:
                self.idle.append(connection)
            return

    def answer(self, path: str, answers: list[dict[str, Any]], hangup: Hangup) -> None:
        """Over a connection that is kept, since there may be thousands. One that comes too late is nobody's loss: the job says what became of it."""
        data = json.dumps(answers).encode()
        self._patiently(lambda: self._answer_once(path, data), hangup)

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for connection in idle:
            connection.close()


def is_events(response: http.client.HTTPResponse) -> bool:
    """A job that waits for an approval, or has waited for one, may be answered without events."""
    return response.headers.get_content_type() == "text/event-stream"


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """(event, data), comments left out."""
    event = ""
    for line in response:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            event = text[7:]
        elif text.startswith("data: "):
            data = json.loads(text[6:])
            if event == "error":
                raise ImmureError(data["error"], 500, data["code"], data["field"])
            yield event, data
