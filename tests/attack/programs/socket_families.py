"""Socket families and protocols that are not namespaced, loaded on demand or rarely looked at."""

from attack import attack
from prelude import attempt, attempts, found, syscall

FILTER = "socket is allowed for AF_UNIX, and for TCP and UDP, alone"


@attack(FILTER, {"allowed": r"1/1 1/2 1/3 1/5 2/1 2/2 10/1 10/2"}, denied=["socket"])
def every_family():
    """Makes a socket of every family there is, in every type."""
    allowed = []
    for family in range(46):
        for kind in range(1, 7):
            try:
                syscall("socket", family, kind, 0)
            except OSError:
                continue
            allowed.append(f"{family}/{kind}")
    found("allowed", " ".join(allowed))


@attack(FILTER, {"packet": "EPERM"}, denied={"socket": 4}, unfiltered=True)
def packets():
    """Listens to whatever comes by."""
    attempts("packet", [lambda kind=kind, protocol=protocol: syscall("socket", 17, kind, protocol)
                        for kind, protocol in ((3, 0x300), (2, 0x300), (10, 0x300), (3, 0))])


@attack(FILTER, {"vsock": "EPERM"}, denied={"socket": 2}, unfiltered=True)
def hypervisor():
    """Talks to the hypervisor or to other virtual machines, past every network namespace (AF_VSOCK)."""
    attempts("vsock", [lambda kind=kind: syscall("socket", 40, kind, 0) for kind in (1, 2)])


@attack(FILTER, {"alg": "EPERM"}, denied={"socket": 1}, unfiltered=True)
def kernel_crypto():
    """Has the kernel load and run its cryptography (AF_ALG)."""
    attempt("alg", syscall, "socket", 38, 5, 0)


@attack("netlink is answered as if the kernel had none", {"netlink": "EAFNOSUPPORT"})
def netlink():
    """Talks to routing, audit, netfilter, device events and the socket monitor."""
    attempts("netlink", [lambda kind=kind, protocol=protocol: syscall("socket", 16, kind, protocol)
                         for kind in (2, 3) for protocol in (0, 4, 6, 9, 10, 12, 15, 16, 19, 21)])


@attack(FILTER, {"raw": "EPERM"}, denied={"socket": 8}, unfiltered=True)
def raw_sockets():
    """Makes raw sockets, and one for pings."""
    attempts("raw", [lambda words=words: syscall("socket", *words) for words in
                     ((2, 3, 1), (2, 3, 255), (2, 3, 6), (10, 3, 58), (2, 2, 1), (10, 2, 58), (2, 10, 0), (10, 3, 17))])


@attack(FILTER, {"protocols": "EPERM"}, denied={"socket": 8})
def odd_protocols():
    """Asks for SCTP, DCCP, MPTCP, UDP-Lite, SMC and L2TP, which are kernel code that is rarely looked at."""
    attempts("protocols", [lambda words=words: syscall("socket", *words) for words in
                           ((2, 1, 132), (2, 5, 132), (2, 6, 33), (2, 1, 262), (2, 2, 136), (43, 1, 0), (2, 2, 115), (10, 1, 262))])


@attack("the filter compares as the kernel reads", {"high": "EAFNOSUPPORT EPERM"}, denied={"socket": 2})
def high_bits():
    """Hides a family in bits that the kernel does not read."""
    attempts("high", [lambda family=family: syscall("socket", family, 3, 0) for family in (1 << 32 | 17, 1 << 32 | 16, 0xFFFFFFFF00000011)])


OPTIONS = "setsockopt is allowed by level and number"


@attack(OPTIONS, {"netfilter": "EPERM", "mark": "EPERM", "repair": "EPERM", "force": "EPERM", "transparent": "EPERM"},
        denied={"setsockopt": 8}, unfiltered=True)
def socket_options():
    """Replaces netfilter's tables (CVE-2021-22555), marks packets, repairs connections, lifts limits of buffers."""
    import socket
    one = socket.socket()
    attempts("netfilter", [lambda level=level, option=option: one.setsockopt(level, option, bytes(96))
                           for level, option in ((0, 64), (41, 64), (0, 96), (0, 128))])
    attempt("mark", one.setsockopt, socket.SOL_SOCKET, 36, 1)
    attempt("repair", one.setsockopt, socket.IPPROTO_TCP, 19, 1)
    attempt("force", one.setsockopt, socket.SOL_SOCKET, 33, 1 << 30)
    attempt("transparent", one.setsockopt, 0, 19, 1)


@attack(OPTIONS, {"classic": "EPERM", "program": "EPERM", "group": "EPERM", "lock": "EPERM", "high": "EPERM"}, denied={"setsockopt": 6},
        outside=True, unfiltered=True)
def socket_filters():
    """Attaches filters to a socket, whose machine code is charged to the host's net.core.bpf_jit_limit: some thousands of them, and
    nobody else can install a filter of system calls."""
    import socket
    import struct
    one, _ = socket.socketpair()
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))  # return 65535
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))
    attempt("classic", one.setsockopt, socket.SOL_SOCKET, 26, program)
    attempt("program", one.setsockopt, socket.SOL_SOCKET, 50, 0)
    attempts("group", [lambda option=option, value=value: one.setsockopt(socket.SOL_SOCKET, option, value) for option, value in ((51, program), (52, 0))])
    attempt("lock", one.setsockopt, socket.SOL_SOCKET, 44, 1)
    attempt("high", syscall, "setsockopt", one.fileno(), 1 << 32 | 1, 26, program, 16)


@attack(OPTIONS, {"sizes": "EPERM", "pinned": "EPERM"}, denied={"setsockopt": 5}, outside=True, unfiltered=True)
def socket_memory():
    """Has buffers hold more than they begin with, and has them hold pages of its own."""
    import socket
    one, _ = socket.socketpair()
    # SO_SNDBUF, SO_RCVBUF, and past the host's limit
    attempts("sizes", [lambda option=option: one.setsockopt(socket.SOL_SOCKET, option, 1 << 22) for option in (7, 8, 32, 33)])
    attempt("pinned", socket.socket().setsockopt, socket.SOL_SOCKET, 60, 1)


@attack(OPTIONS, {"options": "EPERM"}, denied={"setsockopt": 12}, unfiltered=True)
def options_of_protocols():
    """Turns on what few programs use: IP options, UDP encapsulation, protocols on top of TCP, signatures, groups, device names."""
    import socket
    stream, datagram, six = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET6)
    attempts("options", [lambda words=words: words[0].setsockopt(*words[1:]) for words in (
        (stream, 0, 4, bytes(40)), (datagram, 17, 100, 2), (datagram, 17, 103, 1200), (datagram, 17, 104, 1), (stream, 6, 31, b"tls"),
        (stream, 6, 14, bytes(216)), (stream, 6, 13, b"cubic"), (datagram, 0, 35, bytes(8)), (datagram, 0, 42, bytes(136)),
        (six, 41, 54, bytes(8)), (six, 41, 57, bytes(24)), (stream, 1, 25, b"lo"))])


@attack("messages are allowed without MSG_OOB, MSG_ZEROCOPY and MSG_FASTOPEN", {"send": "EPERM", "receive": "EPERM", "pages": "EPERM"},
        denied={"sendto": 5, "sendmsg": 1, "sendmmsg": 1, "recvfrom": 1, "recvmsg": 1, "recvmmsg": 1}, outside=True, unfiltered=True)
def out_of_band():
    """Sends and receives past the end of the line, on local sockets (CVE-2025-38236), and pages instead of bytes."""
    import socket
    one, two = socket.socketpair()
    message = ctypes.create_string_buffer(64)
    attempts("send", [lambda: one.send(b"x", socket.MSG_OOB), lambda: one.sendmsg([b"x"], (), socket.MSG_OOB),
                      lambda: syscall("sendmmsg", one.fileno(), message, 1, 1), lambda: syscall("sendto", one.fileno(), b"x", 1, 1 << 32 | 1, 0, 0)])
    two.setblocking(False)
    attempts("receive", [lambda: two.recv(1, socket.MSG_OOB), lambda: two.recvmsg(1, 0, socket.MSG_OOB),
                         lambda: syscall("recvmmsg", two.fileno(), message, 1, 0x41, 0)])
    attempts("pages", [lambda flags=flags: one.send(b"x", flags) for flags in (0x4000000, 0x20000000, 0x24000000)])
