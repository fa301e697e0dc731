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


@attack("the filter looks at all 64 bits", {"high": "EPERM|EAFNOSUPPORT"}, denied=None)
def high_bits():
    """Hides a family in bits that the kernel does not read."""
    attempts("high", [lambda family=family: syscall("socket", family, 3, 0) for family in (1 << 32 | 17, 1 << 32 | 16, 0xFFFFFFFF00000011)])


@attack("no capability in any network namespace", {"netfilter": "EPERM|ENOPROTOOPT|EPERM ENOPROTOOPT|ENOPROTOOPT EPERM", "mark": "EPERM",
                                                   "repair": "EPERM", "force": "EPERM", "transparent": "EPERM"})
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
