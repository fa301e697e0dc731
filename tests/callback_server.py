"""The agent framework's part in tests: an HTTP server on loopback that answers tool calls."""

import json
import selectors
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import PATIENCE


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server.owner
        with server.lock:
            server.requests.append((self.path, self.headers, json.loads(body)))
            server.bodies.append(body)
            server.connections.add(self.client_address)
        call = json.loads(body)
        reply = server.answer(call)
        if reply is None:
            self.close_connection = True  # without a word
            return
        status, headers, body = reply if isinstance(reply, tuple) else (200, {}, json.dumps(reply).encode())
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.close_connection = self.close_connection or headers.get("Connection") == "close"
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


class CallbackServer:
    """`tools`: NAME -> what is answered as JSON, or (status, headers, body), or None: the connection is closed; or a function of the
    arguments that returns one of these."""

    def __init__(self, tools, tls=None, address="127.0.0.1"):
        self.tools, self.requests, self.bodies, self.connections, self.lock = tools, [], [], set(), threading.Lock()
        self.server = Quiet((address, 0), Handler)
        self.server.owner = self
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.scheme, self.port = "https" if tls else "http", self.server.server_address[1]
        self.url = f"{self.scheme}://{address}:{self.port}/tools/call"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def answer(self, call):
        reply = self.tools[call["name"]]
        return reply(**call["args"]) if callable(reply) else reply

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Hold(CallbackServer):
    """Holds jobs, so that a test need not guess for how long: `call_tool('hold')` returns once `go` is set.

    `environment` is for their server, `fields` for their requests."""

    def __init__(self):
        self.go = threading.Event()
        super().__init__({"hold": lambda: {"data": ""} if self.go.wait(PATIENCE * 60) else {"error": "nobody let it go"}})
        self.environment = {"SANDBOX_EXECUTOR_CALLBACK_URLS": self.url}
        self.fields = {"callback_url": self.url, "timeout": 60}

    def __exit__(self, *_):
        self.go.set()
        super().__exit__()


class QuickServer:
    """Answers every request at once with the same few bytes: what is measured against it is not the server."""

    ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"data": "42"}'

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.selector, self.ended = selectors.DefaultSelector(), socket.socketpair()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.ended[0], selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.ended[0]:
                    return
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.selector.register(connection, selectors.EVENT_READ)
                elif not self.answer(key.fileobj):
                    self.selector.unregister(key.fileobj)
                    key.fileobj.close()

    def answer(self, connection):
        """-> whether it goes on"""
        try:
            data = connection.recv(65536)
            # Requests are smaller than a segment: each comes whole.
            return data and connection.send(self.ANSWER * data.count(b"POST "))
        except OSError:  # it was cancelled
            return False

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended[1].close()
        self.thread.join()
        self.selector.close()
        self.listener.close()
