"""The two pipes that lead to the server: broken, endless and forged frames; results that name the host's files."""

import os

from attack import attack
from prelude import GIVEN, attempt, attempts, found

STRICT = "frames are read strictly, in the process without privileges; what is broken closes this job's bridge and nothing else"
BENEATH = "a result's files are looked for beneath the workspace, as outputs are"


@attack(STRICT, {"sent": "True"})
def endless_frame():
    """Announces a frame of four gigabytes, and sends what fits into the pipe."""
    os.set_blocking(4, False)
    os.write(4, b"\xff\xff\xff\xff{" + b"x" * 60000)
    found("sent", True)


@attack(STRICT, {"sent": "True"})
def half_a_frame():
    """Sends part of a frame, and ends."""
    os.write(4, b"\0\0\1\0" + b'{"op":"result","id":1')
    found("sent", True)


@attack(STRICT, {"sent": "True"}, verdict={"output": ""})
def no_frames():
    """Sends bytes that are no frames."""
    attempts_left = 3
    for text in (b"\0\0\0\0" * 100, b"\0\0\0\1x", os.urandom(4000)):
        try:
            os.set_blocking(4, False)
            os.write(4, text)
            attempts_left -= 1
        except OSError:
            pass
    found("sent", attempts_left < 3)


@attack(STRICT, {"sent": "True"}, verdict={"output": ""})
def deep_frame():
    """Sends JSON that is nested a hundred thousand times, for a reader that calls itself."""
    import threading
    text = b'{"op":"result","id":1,"data":' + b"[" * 100000 + b"]" * 100000 + b"}"
    writer = threading.Thread(target=lambda: os.write(4, len(text).to_bytes(4, "big") + text), daemon=True)
    writer.start()
    writer.join(5)
    found("sent", True)


@attack(STRICT, {"sent": "True"})
def wrong_types():
    """Sends frames whose fields are missing, doubled, of other types, or not known."""
    for text in (b'{}', b'{"op":1}', b'{"op":"result"}', b'{"op":"result","id":-1,"data":1}', b'{"op":"result","id":1e400,"data":1}',
                 b'{"op":"result","id":1,"id":2,"data":1}', b'{"op":"call","id":1,"name":[],"args":{}}', b'{"op":"result","id":1,"files":{}}',
                 b'{"op":"result","id":1,"data":"\xff"}', b'{"op":"result","id":1,"data":"\\ud800"}', b'{"op":"exit"}', b'{"op":"\0"}'):
        try:
            os.write(4, len(text).to_bytes(4, "big") + text)
        except BrokenPipeError:
            break
    found("sent", True)


@attack(BENEATH, {"result": "done|RuntimeError|ValueError"}, verdict={"files": []})
def files_of_the_host():
    """Gives results whose files lie elsewhere: by absolute paths, by .., by links, by descriptors."""
    import builtins
    os.symlink(GIVEN["secret"], "link")
    os.symlink(GIVEN["directory"], "directory")
    for names in ([GIVEN["secret"]], ["../../../.." + GIVEN["secret"]], ["/workspace/../../.." + GIVEN["secret"]], ["link"],
                  ["directory/secret"], ["/proc/self/root" + GIVEN["secret"]], ["/proc/1/root/etc/passwd"], ["/immure/main.py"], ["."]):
        try:
            builtins.set_result(1, names)
        except (RuntimeError, ValueError, TypeError, OSError):
            pass
    found("result", "done")


@attack(BENEATH, {"sent": "True"}, verdict={"files": []})
def files_of_the_host_by_hand():
    """Sends such results itself, without the prelude that would refuse them."""
    os.symlink(GIVEN["secret"], "link")
    for name in (GIVEN["secret"], "../.." + GIVEN["secret"], "/workspace/link", "link", "/workspace/../etc/passwd", "", "/", "/workspace",
                 "/workspace/", "/workspace//link", "x" * 5000, "/workspace/\\u0000"):
        text = ('{"op":"result","id":1,"data":1,"files":["' + name + '"]}').encode()
        try:
            os.write(4, len(text).to_bytes(4, "big") + text)
        except BrokenPipeError:
            break
    found("sent", True)


@attack(STRICT, {"frames": "[1-9][0-9]*"}, alone=True)
def flood():
    """Sends results as fast as it can, and never reads an answer."""
    import time
    os.set_blocking(4, False)
    frames, end = 0, time.monotonic() + 0.2
    text = b'{"op":"result","id":1,"data":1}'
    while time.monotonic() < end:
        try:
            os.write(4, len(text).to_bytes(4, "big") + text)
            frames += 1
        except BlockingIOError:
            time.sleep(0.001)
        except BrokenPipeError:
            break
    found("frames", frames)


@attack(STRICT, None, verdict={"exit_code": 0})
def large_result():
    """Gives a result of many megabytes."""
    import builtins
    try:
        builtins.set_result("x" * (64 << 20))
    except (RuntimeError, ValueError, BrokenPipeError):
        pass


@large_result.checks
def not_all_of_it(verdict):
    if len(str(verdict["output"])) > 32 << 20:
        yield f"{len(str(verdict['output']))} bytes of output"


@attack("the data is a JSON string in the reply, whatever it holds", verdict={"killed": False, "oom": False, "files": []})
def forged_reply():
    """Gives a result that looks like the end of the reply and another one."""
    import builtins
    builtins.set_result('"}, "status": "timeout", "killed": true, "files": [{"name": "x"}], "x": "')


@attack("tools are called by the server, and this one has none", {"call": "RuntimeError"})
def calls():
    """Calls the server itself as if it were a tool."""
    import builtins
    outcomes = set()
    for name in ("execute_code", "execute", "http://127.0.0.1/", "../../healthz", "", "\0", "x" * 100000):
        try:
            builtins.call_tool(name, {"code": "1"})
            outcomes.add("done")
        except (RuntimeError, ValueError, TypeError) as error:
            outcomes.add("RuntimeError" if isinstance(error, (RuntimeError, ValueError, TypeError)) else "other")
    found("call", " ".join(sorted(outcomes)))


@attack("the bridge's descriptors are the first process's", {"child": "RuntimeError", "inherited": r"\[\]"})
def other_processes():
    """Has a child talk to the server, by fork and by exec."""
    import builtins
    import subprocess
    one, two = os.pipe()
    if os.fork() == 0:
        try:
            builtins.set_result("of a child")
            os.write(two, b"done")
        except RuntimeError:
            os.write(two, b"RuntimeError")
        os._exit(0)
    os.wait()
    found("child", os.read(one, 100).decode())
    listed = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True).stdout.split()
    found("inherited", [number for number in listed if int(number) > 3])


@attack("the ends are pipes, one for each direction", {"write": "EBADF", "read": "EBADF", "size": "EPERM", "socket": "ENOTSOCK"}, denied={"fcntl": 1})
def wrong_way():
    """Uses each end the wrong way, blows it up, and passes descriptors through it."""
    import fcntl
    import socket
    attempt("write", os.write, 3, b"x")
    attempt("read", os.read, 4, 1)
    attempts("size", [lambda: fcntl.fcntl(4, 1031, 1 << 30)])

    def send():
        one = socket.socket(fileno=os.dup(4), family=socket.AF_UNIX, type=socket.SOCK_STREAM)
        socket.send_fds(one, [b"x"], [0])
    attempt("socket", send)
