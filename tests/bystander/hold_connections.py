"""A caller without a key who keeps as many connections as it gets: each says something of its kind, and is made again when it is
closed. Runs until its standard input ends, or a minute; prints then how many it had at once at most, and how many it made.

usage: hold_connections.py PORT KIND NUMBER ADDRESS..."""

import json
import select
import socket
import sys
import time

PIECE_S, ROUND_S, RENEWED_PER_ROUND, LONGEST_S = 0.2, 0.01, 20, 60
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "
KINDS = {  # what is said first, and then again and again
    "idle": (b"", b""),
    "half-sent": (HEAD, b""),
    "byte-by-byte": (b"G", b"E"),
    "half-bodies": (b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", b" "),
    "wrong-keys": (HEAD + b"a\r\nX-Service-API-Key: wrong\r\n\r\n", b""),
    "unread": (b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50, b""),
}


def main():
    port, kind, number, addresses = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    first, then = KINDS[kind]
    poll, clients, made, most = select.poll(), {}, 0, 0
    began = spoke = time.monotonic()
    print("begun", flush=True)
    while not select.select([sys.stdin], [], [], ROUND_S)[0] and time.monotonic() < began + LONGEST_S:
        for _ in range(RENEWED_PER_ROUND if made >= number else number):
            if len(clients) >= number:
                break
            client = socket.socket()
            client.bind((addresses[made % len(addresses)], 0))
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            poll.register(client, select.POLLOUT)
            clients[client.fileno()] = client
            made += 1
        for fd, events in poll.poll(0):
            client = clients[fd]
            try:
                if events & select.POLLOUT:
                    poll.modify(client, select.POLLIN)
                    client.send(first)
                if events & ~select.POLLOUT and (kind != "unread" or events & (select.POLLHUP | select.POLLERR)) and not client.recv(65536):
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(client)
                clients.pop(fd).close()
        if then and time.monotonic() > spoke + PIECE_S:
            spoke = time.monotonic()
            for client in clients.values():
                try:
                    client.send(then)
                except OSError:
                    pass
        most = max(most, len(clients))
    print(json.dumps({"most": most, "made": made}))


main()
