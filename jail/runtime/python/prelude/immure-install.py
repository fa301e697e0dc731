# What is behind install_package(): pip, as a process of the program's own jail, with the program's own limits. Read at the
# first call. pip comes from the host, which the policy shows read-only; what it writes goes into the workspace.
#
# The program could start pip by itself: what is refused here is refused so that a name cannot turn into something else (an
# option, a URL) unnoticed. Nothing but modules that are part of the interpreter is used: a program may have a re.py of its own.

import fcntl
import os
import stat
import sys

# Where the shipped policy shows Debian's python3-pip; and where python3-pip-whl, Fedora's python-pip-wheel, and Python's own
# ensurepip put pip as a wheel, which runs as it is.
PIP = "/usr/share/immure/pip"
WHEELS = "/usr/share/python-wheels", os.path.join(os.path.dirname(os.__file__), "ensurepip/_bundled")
ARCHIVES = ".whl", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip"
REQUIREMENT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[],<>=!~*+ ")
NAME_MAX = 512
TAIL_BYTES = 65536  # of pip's output, in which the reason is looked for


def check_path(path):
    """-> the absolute path of a file or directory that pip shall install"""
    roots = [os.path.realpath(root) for root in (os.environ["HOME"], "/tmp")]
    real = os.path.realpath(path)
    if not any(real.startswith(root + "/") or real == root for root in roots):
        raise ValueError("it lies neither in the working directory nor in /tmp")
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if not stat.S_ISDIR(mode) and not (stat.S_ISREG(mode) and path.endswith(ARCHIVES)):
        raise ValueError("it is no wheel, sdist or directory")
    return real


def is_path(name):
    return "/" in name or name.startswith(".") or name.endswith(ARCHIVES)


def check_name(name):
    if not name or len(name) > NAME_MAX or not name.isprintable():
        raise ValueError("that is no name of a package")
    if "://" in name or "@" in name or name.startswith("-"):
        raise ValueError("options and URLs are not taken, only names and paths")
    if is_path(name):
        return check_path(name)
    if not name[0].isalnum() or not REQUIREMENT.issuperset(name):
        raise ValueError("that is no name of a package")
    return name


def find_pip():
    """-> (what to run it with, directories with wheels that need no index)"""
    directories = [directory for directory in WHEELS if os.path.isdir(directory)]
    if os.path.isfile(os.path.join(PIP, "__main__.py")):
        return PIP, directories
    for directory in directories:
        for name in sorted(os.listdir(directory), reverse=True):
            if name.startswith("pip-") and name.endswith(".whl"):
                return os.path.join(directory, name, "pip"), directories
    for directory in sys.path:
        if os.path.isfile(os.path.join(directory, "pip/__main__.py")):
            return os.path.join(directory, "pip"), directories
    raise ValueError("this server has no pip (Debian's package is python3-pip)")


def settings(directories):
    """pip's environment: nothing of the program's but where it lives."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    base = os.path.join(os.environ["HOME"], ".packages")
    return {**kept, "PYTHONUSERBASE": base, "PYTHONDONTWRITEBYTECODE": "1", "PIP_USER": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1",
            "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_FIND_LINKS": " ".join(directories),
            "PIP_NO_CACHE_DIR": "1", "PIP_NO_COLOR": "1", "PIP_NO_INPUT": "1", "PIP_NO_WARN_SCRIPT_LOCATION": "1",
            "PIP_PROGRESS_BAR": "off", "PIP_ROOT_USER_ACTION": "ignore"}


def reason(output):
    """The line of pip's output that says best why it failed."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines()]
    step = next((line[2:] for line in lines if line.startswith("× ")), None)
    for i, line in enumerate(lines):
        if step and line == "[end of output]" and i > 0:  # of the process that builds the package
            return f"{step.rstrip('.')}: {lines[i - 1]}"
    for mark in "ERROR: ", "error: ":
        for line in reversed(lines):
            if line.startswith(mark):
                return line[len(mark):]
    return next((line for line in reversed(lines) if line), "pip said nothing")


def run(argv, environment):
    """-> (the exit status, as waitpid has it; the end of what it printed)"""
    output, theirs = os.pipe()
    tail, pid = b"", None
    try:
        try:
            pid = os.posix_spawn(argv[0], argv, environment, setsid=True, file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, theirs, 1), (os.POSIX_SPAWN_DUP2, theirs, 2)])
        finally:
            os.close(theirs)
        while data := os.read(output, 65536):
            tail = (tail + data)[-TAIL_BYTES:]
        child, pid = pid, None
        return os.waitpid(child, 0)[1], tail
    finally:
        os.close(output)
        if pid is not None:  # a signal handler has raised
            os.killpg(pid, 9)
            os.waitpid(pid, 0)


def install(name):
    if not isinstance(name, str):
        raise TypeError(f"install_package: the name must be a str, not {type(name).__name__}")
    try:
        what = check_name(name)
        if not packages:
            raise ValueError("HOME is not set")
        command, directories = find_pip()
        if what == name:
            raise ValueError("this server has no package index; wheels and directories can be installed")
        environment = settings(directories)
        environment["PIP_NO_INDEX"] = "1"
        base = environment["PYTHONUSERBASE"]
        os.makedirs(base, exist_ok=True)
        # One at a time: of this program's threads, and of the session's other programs.
        with open(os.path.join(base, ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            status, output = run([sys.executable, command, "install", "--", what], environment)
        if status != 0:
            raise ValueError(reason(output))
    except (OSError, ValueError) as error:
        raise RuntimeError(f"pip install {name} failed: {error}") from None
    if packages not in sys.path:
        sys.path.append(packages)
    for finder in sys.meta_path:
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


loaded["install"] = install
