"""Workspaces that several jobs share: other sessions' files, and traps that one job leaves for the server and for the next."""

import os

from attack import attack
from prelude import GIVEN, attempt, attempts, found, hold, loot

BENEATH = "files of requests are written beneath the workspace, through no link, and replace what is there"
OWN = "a session's workspace is mounted for its own jobs alone"


@attack(OWN, {"workspace": r"\[\]", "secret": "ENOENT"}, session_id="attack-other")
def another_session():
    """Looks in its own session for the files of another, whose job is running."""
    found("workspace", os.listdir("/workspace"))
    loot("secret", "/workspace/../workspace/secret")


@another_session.beside({"session_id": "attack-private"}, still="True")
def keeps_a_secret():
    """Keeps a secret in its session."""
    with open("secret", "w") as file:
        file.write(os.environ["NEIGHBOUR_SECRET"])
    hold()
    found("still", open("secret").read() == os.environ["NEIGHBOUR_SECRET"])
    os.unlink("secret")


@attack("of a session's jobs, only the workspace is shared", {"pids": r"\[\]", "abstract": "ECONNREFUSED", "tmp": r"\[\]", "shm": r"\[\]",
                                                             "kill": "ESRCH"}, session_id="attack-shared")
def another_job_of_the_session():
    """Looks for processes, sockets and temporary files of another job of its own session."""
    import socket
    found("pids", [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (os.getpid(), os.getppid())])
    attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0attack-session"))
    found("tmp", os.listdir("/tmp"))
    found("shm", os.listdir("/dev/shm"))
    attempts("kill", [lambda pid=pid: os.kill(pid, 9) for pid in range(3, 100) if pid != os.getpid()])


@another_job_of_the_session.beside({"session_id": "attack-shared"}, came="False")
def has_more_than_a_workspace():
    """Listens, and writes into /tmp and /dev/shm."""
    import select
    import socket
    one = socket.socket(socket.AF_UNIX)
    one.bind("\0attack-session")
    one.listen()
    open("/tmp/x", "w").close()
    open("/dev/shm/x", "w").close()
    hold()
    found("came", bool(select.select([one], [], [], 0)[0]))


@attack(BENEATH, None, verdict={"status": None, "exit_code": None, "code": "invalid_field"}, session_id="attack-directory",
        files=[{"name": "directory/planted", "content": "x"}])
def directory_replaced_by_a_link():
    """Is given a file in a directory that the job before has made a link to the host's."""


@directory_replaced_by_a_link.behind(session_id="attack-directory")
def leaves_a_link_for_a_directory():
    """Leaves the link."""
    os.path.islink("directory") or os.symlink(GIVEN["directory"], "directory")


@attack(BENEATH, {"target": "False", "content": "input"}, session_id="attack-link", files=[{"name": "file", "content": "input"}])
def file_replaced_by_a_link():
    """Is given a file whose name the job before has made a link to the host's."""
    found("target", os.path.islink("file"))
    found("content", open("file").read())


@file_replaced_by_a_link.behind(session_id="attack-link")
def leaves_a_link_for_a_file():
    """Leaves the link."""
    os.symlink(GIVEN["target"], "file")


@attack(BENEATH, {"regular": "True"}, session_id="attack-fifo", files=[{"name": "file", "content": "input"}])
def file_replaced_by_a_fifo():
    """Is given a file where the job before has left a FIFO, whose opening waits for a reader."""
    found("regular", os.path.isfile("file"))


@file_replaced_by_a_fifo.behind(session_id="attack-fifo")
def leaves_a_fifo():
    """Leaves the FIFO."""
    os.mkfifo("file")


@attack(BENEATH, verdict={"files": []}, session_id="attack-outputs", outputs=["link", "directory/secret", "fifo", "*"])
def outputs_that_are_links():
    """Asks for what the job before has left: links to the host's, and a FIFO."""


@outputs_that_are_links.behind(session_id="attack-outputs")
def leaves_links():
    """Leaves them."""
    os.symlink(GIVEN["secret"], "link")
    os.symlink(GIVEN["directory"], "directory")
    os.mkfifo("fifo")


@attack("a name is no path", {"files": r"\[\]"}, session_id="../attack-private")
def name_that_is_a_path():
    """Names a session by a path."""
    found("files", os.listdir("."))


@attack(BENEATH, {"mode": "True"}, session_id="attack-modes", files=[{"name": "file", "content": "input"}])
def workspace_locked():
    """Comes into a workspace that the job before has locked."""
    found("mode", open("file").read() == "input")


@workspace_locked.behind(session_id="attack-modes")
def locks_the_workspace():
    """Takes all permissions from the workspace and a directory."""
    os.makedirs("directory", exist_ok=True)
    os.chmod("directory", 0)
    os.chmod("/workspace", 0)
