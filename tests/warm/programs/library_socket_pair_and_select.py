import select
import socket
a, b = socket.socketpair()
a.sendall(b"hello")
print(select.select([b], [], [], 1)[0] == [b], b.recv(10))
try:
    socket.create_connection(("127.0.0.1", 1), timeout=1)
except OSError as error:
    print(type(error).__name__)
