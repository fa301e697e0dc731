"""Secrets in the environment, in memory, in error messages; pages that were somebody else's."""

import os

from attack import attack
from prelude import GIVEN, attempts, found, loot, read

NOTHING = "nothing that is secret is in the memory of what becomes the program, and nothing is inherited"
VARIABLES = r"\[('ATTACK_GIVEN', )?'HOME', 'LANG', ('LD_BIND_NOW', )?'LOGNAME', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPATH', 'PYTHONUNBUFFERED', 'USER'\]"


@attack(NOTHING, {"names": VARIABLES, "kernel": VARIABLES, "values": "False"}, outside=True)
def environment():
    """Reads its environment, as Python and as the kernel has it."""
    found("names", sorted(set(os.environ) - {"LC_CTYPE"}))
    kernel = dict(entry.partition("=")[::2] for entry in read("/proc/self/environ").split("\0") if "=" in entry)
    found("kernel", sorted(set(kernel or os.environ) - {"LC_CTYPE"}))
    found("values", any("API_KEY" in name or "SECRET" in name for name in (*os.environ, *kernel)))


@attack(NOTHING, {"searched": "True", "leaked": r"\[\]"}, outside=False)
def own_memory():
    """Searches all of its memory, which once was a template's or the warden's, for the server's key and environment."""
    # Never held whole: what is found must be somebody else's.
    backwards = GIVEN["backwards"]
    leaked, searched = set(), 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or end - start > 1 << 26 or "[v" in line:
                continue
            try:
                memory.seek(start)
                piece = memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue
            searched += len(piece)
            for name, text in backwards.items():
                at = piece.find(text[:-7:-1].encode())
                while at >= 0:
                    if all(piece[at + i:at + i + 1] == text[-1 - i].encode() for i in range(len(text))):
                        leaked.add(name)
                    at = piece.find(text[:-7:-1].encode(), at + 1)
    found("searched", searched > 1 << 20)
    found("leaked", sorted(leaked))


@attack("the kernel hands out pages full of zeros", {"memory": "0", "file": "0", "pipe": "0"})
def pages_of_others():
    """Looks at memory, at holes of files and at fresh buffers for what somebody else has left there."""
    import mmap
    memory = mmap.mmap(-1, 4 << 20)
    found("memory", sum(map(bool, memory.read(4 << 20).strip(b"\0"))))
    fd = os.open("hole", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(fd, 0, 1 << 20)
    found("file", len(os.pread(fd, 1 << 20, 0).strip(b"\0")))
    one, two = os.pipe()
    os.write(two, bytes(64))
    found("pipe", len(os.read(one, 64).strip(b"\0")))


@attack("PID 1 is not dumpable, and hidden", {"environ": "ENOENT|EACCES", "cmdline": "ENOENT|EACCES", "mem": "ENOENT|EACCES",
                                              "auxv": "ENOENT|EACCES", "stack": "ENOENT|EACCES"})
def environment_of_init():
    """Reads what PID 1, a copy of the warden or of a template, was started with and holds."""
    for name in ("environ", "cmdline", "mem", "auxv", "stack"):
        loot(name, f"/proc/1/{name}")


@attack("arguments are the program's own", {"arguments": "True", "others": "ENOENT|EACCES|ENOENT EACCES|EACCES ENOENT"})
def command_lines():
    """Reads command lines for keys that were given there."""
    found("arguments", "immure" not in read("/proc/self/cmdline").replace("/immure/main.py", "").replace("/immure/template", ""))
    attempts("others", [lambda pid=pid: read(f"/proc/{pid}/cmdline") for pid in range(1, 300) if pid != os.getpid()])


@attack("the interpreter was started with the policy's values alone", {"paths": "True", "home": "False", "modules": "False"})
def interpreter_state():
    """Looks through Python itself for paths and names of the host."""
    import sys
    found("paths", all(path.startswith(("/usr/lib/python3", "/usr/local/lib/python3", "/immure", "/workspace")) for path in sys.path if path))
    text = repr(vars(sys)) + repr(sorted(sys.modules)) + repr(vars(sys.modules["__main__"]).keys())
    found("home", any(word in text for word in ("/root", "/home", "/build")))
    found("modules", any(name.startswith("immure") for name in sys.modules))


@attack("replies tell what the program may know", {}, verdict={"status": "execution_error", "exit_code": 1})
def error_messages():
    """Fails, to read in its traceback where things lie outside."""
    raise RuntimeError("attack")


@error_messages.checks
def no_path(verdict):
    # `error` is what was printed; none of it may name a directory of the host.
    text = str(verdict.get("stderr")) + str(verdict.get("error")) + str(verdict.get("error_message"))
    for word in ("/build/", "jail/runtime", "warden", "/tmp/pytest"):
        if word in text:
            yield f"the reply names {word}"


@attack("the auxiliary vector and the stack below it are the program's own", {"random": "True", "stack": "0"})
def stack_of_the_exec():
    """Reads below its stack's arguments, where those of the launcher once were."""
    first = open("/proc/self/auxv", "rb").read()
    found("random", len(first) > 64)
    found("stack", sum(word in first for word in (b"SECRET", b"KEY")))


@attack("random numbers are each job's own", {"unlike": "True"})
def random_numbers():
    """Gets the random numbers that another job, forked from the same template, has got."""
    import random
    import uuid
    numbers = [random.random(), random.SystemRandom().random(), os.urandom(8).hex(), uuid.uuid4().hex, hash("attack")]
    with open("numbers", "w") as file:
        file.write(repr(numbers))
    found("unlike", len(set(map(str, numbers))) == 5)
