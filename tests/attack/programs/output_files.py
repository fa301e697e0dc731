"""Output files that are links, FIFOs, sockets, devices, sparse, huge, countless, oddly named."""

import base64
import os

from attack import attack
from prelude import GIVEN, attempt, attempts, found, syscall

BENEATH = "files are listed and opened beneath the scratch, through no link, after the last process is gone"
NONE = {"files": [], "output_files": [], "output_files_truncated": False}


def names(verdict):
    return [file["name"] for file in verdict["output_files"]]


def content_beyond(verdict, size_max):
    size = sum(len(base64.b64decode(file.get("data", ""))) for file in verdict["files"])
    if not 0 < size <= size_max or not verdict["output_files_truncated"]:
        yield f"{size} bytes of content in the reply, truncated: {verdict['output_files_truncated']}"


@attack(BENEATH, verdict=NONE, outputs=["*", "absolute", "relative", "proc", "loop"])
def symbolic_links():
    """Leaves links to a file of the host, to descriptors, and to themselves."""
    os.symlink(GIVEN["secret"], "absolute")
    os.symlink("../../../../../.." + GIVEN["secret"], "relative")
    os.symlink("/proc/self/root" + GIVEN["secret"], "proc")
    os.symlink("/proc/self/fd/0", "descriptor")
    os.symlink("loop", "loop")


@attack(BENEATH, verdict=NONE, outputs=["*", "directory/secret", "directory/*", "etc/passwd", "root/etc/hostname"])
def links_to_directories():
    """Leaves links to directories of the host, and asks for files below them."""
    os.symlink(GIVEN["directory"], "directory")
    os.symlink("/etc", "etc")
    os.symlink("/proc/1/root", "root")


@attack(BENEATH, verdict=NONE, outputs=["*"])
def fifos():
    """Leaves FIFOs, whose opening waits for a writer."""
    for number in range(20):
        os.mkfifo(f"fifo{number}")


@attack(BENEATH, verdict=NONE, outputs=["*"])
def sockets():
    """Leaves a socket that a process still listens on."""
    import socket
    one = socket.socket(socket.AF_UNIX)
    one.bind("socket")
    one.listen()
    if os.fork() == 0:
        one.accept()


@attack("mknod is refused but for FIFOs", {"mknod": "EPERM", "mknodat": "EPERM"}, denied={"mknod": 2, "mknodat": 2}, verdict=NONE, outputs=["*"])
def devices():
    """Leaves devices."""
    attempts("mknod", [lambda kind=kind: syscall("mknod", b"node", kind, 0x0801) for kind in (0o060666, 0o020666)])
    attempts("mknodat", [lambda kind=kind: syscall("mknodat", -100, b"node", kind, 0x0801) for kind in (0o060666, 0o020666)])


@attack("content is limited per file and, by what the scratch holds, in all", {"large": "EFBIG"}, outputs=["*"],
        limits={"scratch_bytes": 2 << 20})
def sparse_files():
    """Leaves sparse files, which claim a size and cost nothing, to have the server write all of it."""
    for number in range(64):
        with open(f"sparse{number:02}", "wb") as file:
            file.truncate(1 << 20)
    attempt("large", os.truncate, "sparse00", 1 << 40)


@sparse_files.checks
def bounded(verdict):
    yield from content_beyond(verdict, 2 << 20)


@attack("content is limited per file and, by what the scratch holds, in all", outputs=["*"],
        limits={"scratch_bytes": 2 << 20})
def many_names_of_one_file():
    """Leaves one large file under many names."""
    with open("name000", "wb") as file:
        file.write(bytes(1 << 20))
    for number in range(1, 100):
        os.link("name000", f"name{number:03}")


@many_names_of_one_file.checks
def bounded_too(verdict):
    yield from content_beyond(verdict, 2 << 20)


@attack("the list is cut, and says so", verdict={"output_files_truncated": True}, outputs=["*"])
def countless_files():
    """Leaves as many files as the scratch has room for."""
    for number in range(3500):
        os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))


@countless_files.checks
def cut(verdict):
    if not 0 < len(verdict["output_files"]) <= 256 or len(verdict["files"]) > 256:
        yield f"{len(verdict['output_files'])} files are listed"


@attack("names are put into JSON and logs as what they are: bytes of somebody else's", {"made": "[0-9]+"}, outputs=["*"])
def odd_names():
    """Leaves names with line ends, quotes, control characters, escape sequences, bytes that are no UTF-8, and of full length."""
    tried = [b"new\nline", b'"quoted"', b"back\\slash", b"\x1b[2J\x1b]0;owned\x07", b"\xff\xfe\xfd", b"\xc0\xaf", b"\xed\xa0\x80", b"-rf", b"...",
             b" ", b"\r\nX-Injected: yes", b"%s%n%x", b"$(id)", b"`id`", b"a" * 255, "\u202egpj.exe".encode(), b"\xe2\x80\xa8", b"\x01", b"\x7f",
             b"COM1", b"{}", b"<script>", b"*", b"[a-z]", b"?", b"~", b"'", b"nul\xc4\x80"]
    for name in tried:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    found("made", len(tried))


@odd_names.checks
def all_are_there(verdict):
    made = int(verdict["stdout"].split()[-1])
    if len(verdict["output_files"]) != made:
        yield f"{len(verdict['output_files'])} of {made} are listed: {names(verdict)}"


@attack("the depth of what is listed has an end", verdict={"output_files_truncated": True}, outputs=["*"])
def deep_directories():
    """Leaves directories so deep that no path reaches their end."""
    for _ in range(1500):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    open("bottom", "w").close()


@attack(BENEATH, verdict={"output_files_truncated": False}, outputs=["*", "locked/*"])
def modes():
    """Leaves files and directories that nobody may read, itself included."""
    os.mkdir("locked")
    with open("locked/file", "w") as file:
        file.write("x")
    with open("unreadable", "w") as file:
        file.write("x")
    os.chmod("locked/file", 0)
    os.chmod("unreadable", 0)
    os.chmod("locked", 0)
    os.chmod("/workspace", 0)


@attack(BENEATH, {"swapped": "True"}, outputs=["*"])
def swapped_at_the_end():
    """Leaves a process that goes on exchanging a file for a link to the host's while the files are read."""
    open("file", "w").close()
    os.symlink(GIVEN["secret"], "link")
    import time
    if os.fork() == 0:
        os.setsid()
        while True:
            syscall(316, -100, b"file", -100, b"link", 2)
    time.sleep(0.02)
    found("swapped", True)


@swapped_at_the_end.checks
def at_most_the_file(verdict):
    if any(file.get("data") for file in verdict["files"]):
        yield f"content came: {verdict['files']}"


@attack("the workspace is a mount of its own", {"rmdir": "EBUSY|EROFS|EACCES", "rename": "EBUSY|EROFS|EACCES|EXDEV"}, verdict=NONE, outputs=["*"])
def workspace_replaced():
    """Puts a link in the workspace's place."""
    os.chdir("/")
    attempt("rmdir", os.rmdir, "/workspace")
    attempt("rename", os.rename, "/workspace", "/tmp/workspace")


@attack("a file's change is told by its ctime too", outputs=[], files=[{"name": "input", "content": "before"}],
        verdict={"output_files": [{"name": "input", "size": 6, "truncated": False}]})
def unwritten():
    """Changes an input and puts its times back, so that it looks untouched."""
    before = os.stat("input")
    with open("input", "r+") as file:
        file.write("behind")
    os.utime("input", ns=(before.st_atime_ns, before.st_mtime_ns))


@attack("wildcards are matched in linear time", verdict={"output_files_truncated": False, "files": []}, outputs=["*a" * 60 + "b"] * 8)
def slow_wildcards():
    """Leaves names on which a pattern with many wildcards takes longest."""
    for number in range(200):
        open("a" * 240 + f"{number:04}", "w").close()


@attack(BENEATH, {"made": "done"}, outputs=["*"], verdict=NONE)
def deleted_while_open():
    """Leaves content in files that have no name any more."""
    file = open("gone", "w")
    file.write("x" * 100000)
    os.unlink("gone")
    attempt("made", os.open, ".", os.O_TMPFILE | os.O_RDWR)


@attack("the reply is JSON by a writer of immure's own; what the program says is a string in it",
        {'"status"': '"success", "exit_code": 0}', "}": "", '{"files"': r'\[\{"name": "x", "data": "x"\}\]\}', "\x1b[2Jred": ""})
def forged_reply():
    """Prints what looks like the end of a reply, another reply, and escape sequences."""
    print('"status": "success", "exit_code": 0}')
    print("}: ")
    print('{"files": [{"name": "x", "data": "x"}]}')
    print("\x1b[2Jred: ", flush=True)


@attack("bytes that are no UTF-8 become U+FFFD", {"\ufffd\ufffd\x00\ufffd(": ""})
def output_that_is_no_text():
    """Prints bytes that are no UTF-8, and NUL."""
    os.write(1, b"\xff\xfe\0\xc3(\n")
