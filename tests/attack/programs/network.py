"""Reaching the server, the host's loopback, other addresses, and being reached."""

from attack import attack
from prelude import GIVEN, attempt, attempts, found

NOWHERE = "a network namespace of the jail's own, with no interface but a loopback that is down"


@attack(NOWHERE, {"server": "ENETUNREACH|ECONNREFUSED", "canary": "ENETUNREACH|ECONNREFUSED", "any": "ENETUNREACH|ECONNREFUSED"}, outside=True)
def host_loopback():
    """Connects to the server, and to a listener on the host's 127.0.0.1."""
    import socket
    attempt("server", lambda: socket.create_connection(("127.0.0.1", GIVEN["server_port"]), 5))
    attempt("canary", lambda: socket.create_connection(("127.0.0.1", GIVEN["tcp4_port"]), 5))
    attempt("any", lambda: socket.create_connection(("0.0.0.0", GIVEN["tcp4_port"]), 5))


@attack(NOWHERE, {"loopback": "EADDRNOTAVAIL|ENETUNREACH|ECONNREFUSED", "mapped": "ENETUNREACH|ECONNREFUSED"}, outside=True)
def host_loopback_6():
    """Connects to a listener on the host's ::1, and to 127.0.0.1 in IPv6's clothes."""
    import socket
    attempt("loopback", lambda: socket.create_connection(("::1", GIVEN.get("tcp6_port", 1)), 5))
    attempt("mapped", lambda: socket.create_connection(("::ffff:127.0.0.1", GIVEN["tcp4_port"]), 5))


@attack(NOWHERE, {"metadata": "ENETUNREACH", "private": "ENETUNREACH", "public": "ENETUNREACH", "link": "(ENETUNREACH|EADDRNOTAVAIL|EINVAL| )+",
                  "six": "ENETUNREACH|EADDRNOTAVAIL"})
def other_addresses():
    """Connects to a cloud's metadata service, to private, public, link-local and IPv6 addresses."""
    import socket

    def connect(family, address):
        one = socket.socket(family)
        one.settimeout(5)
        one.connect(address)
    attempt("metadata", connect, socket.AF_INET, ("169.254.169.254", 80))
    attempts("private", [lambda host=host: connect(socket.AF_INET, (host, 80)) for host in ("10.0.0.1", "172.17.0.1", "192.168.0.1")])
    attempts("public", [lambda host=host: connect(socket.AF_INET, (host, 53)) for host in ("192.0.2.1", "198.51.100.1")])
    attempts("link", [lambda scope=scope: connect(socket.AF_INET6, ("fe80::1", 80, 0, scope)) for scope in (0, 1, 2, 3)])
    attempts("six", [lambda host=host: connect(socket.AF_INET6, (host, 80, 0, 0)) for host in ("fd00:ec2::254", "2001:db8::1")])


@attack(NOWHERE, {"loopback": "ENETUNREACH", "broadcast": "ENETUNREACH", "multicast": "ENETUNREACH|EADDRNOTAVAIL", "join": "EPERM"},
        denied={"setsockopt": 1}, outside=True)
def datagrams():
    """Sends datagrams: to a listener on the host's loopback, to everybody, to a group."""
    import socket
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    attempt("loopback", one.sendto, b"x", ("127.0.0.1", GIVEN["udp4_port"]))
    attempt("broadcast", one.sendto, b"x", ("255.255.255.255", 9))
    attempt("multicast", one.sendto, b"x", ("224.0.0.251", 5353))
    attempt("join", one.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.251") + bytes(4))


@attack(NOWHERE, {"interfaces": r"lo( sit0| ip6tnl0| tunl0)*|EPERM", "up": "EPERM"}, denied=None)
def interfaces():
    """Lists the interfaces, and brings one up."""
    import fcntl
    import socket
    import struct
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names = ctypes.create_string_buffer(4096)
    request = struct.pack("iP", 4096, ctypes.addressof(names))
    size = struct.unpack("iP", fcntl.ioctl(one, 0x8912, request))[0]
    found("interfaces", " ".join(names.raw[at:at + 16].split(b"\0")[0].decode() for at in range(0, size, 40)) or "lo")
    attempt("up", fcntl.ioctl, one, 0x8914, struct.pack("16sH14x", b"lo", 1))


@attack("the file system is the jail's own", {"path": "ENOENT", "docker": "ENOENT", "systemd": "ENOENT", "dbus": "ENOENT"}, outside=True)
def sockets_of_the_host_by_path():
    """Connects to local sockets of the host: a listener, container engines, the service manager, the bus."""
    import socket

    def connect(path):
        socket.socket(socket.AF_UNIX).connect(path)
    attempt("path", connect, GIVEN["directory"] + "/socket")
    attempt("docker", connect, "/var/run/docker.sock")
    attempt("systemd", connect, "/run/systemd/private")
    attempt("dbus", connect, "/run/dbus/system_bus_socket")


@attack("abstract names belong to a network namespace", {"abstract": "ECONNREFUSED", "known": "ECONNREFUSED"}, outside=True)
def sockets_of_the_host_by_abstract_name():
    """Connects to an abstract socket of the host."""
    import socket

    def connect(name):
        socket.socket(socket.AF_UNIX).connect("\0" + name)
    attempt("abstract", connect, GIVEN["abstract"])
    attempts("known", [lambda name=name: connect(name) for name in ("/tmp/.X11-unix/X0", "/containerd-shim/x.sock", "/run/x")])


@attack(NOWHERE, {"names": "none", "dns": "ENETUNREACH"})
def name_service():
    """Resolves names, and asks a server for them itself."""
    import socket
    try:
        found("names", socket.getaddrinfo("localhost.localdomain.invalid", 80) and "some")
    except socket.gaierror:
        found("names", "none")
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    attempts("dns", [lambda host=host: one.sendto(b"\0" * 12, (host, 53)) for host in ("127.0.0.53", "127.0.0.1", "8.8.8.8")])


@attack(NOWHERE, {"listening": "done", "came": "False"})
def being_reached():
    """Listens on all addresses, for somebody of the host to come by."""
    import select
    import socket
    one = socket.create_server(("0.0.0.0", GIVEN["tcp4_port"]))
    attempt("listening", one.listen)
    found("came", bool(select.select([one], [], [], 0.05)[0]))


@attack(NOWHERE, {"open": "EPERM", "mptcp": "EPERM"}, denied={"socket": 1, "sendto": 1})
def fast_open():
    """Sends data along with a connection that does not exist yet, which some filters for connect forget."""
    import socket
    one = socket.socket()
    attempt("open", one.sendto, b"x", 0x20000000, ("127.0.0.1", GIVEN["tcp4_port"]))
    attempt("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
