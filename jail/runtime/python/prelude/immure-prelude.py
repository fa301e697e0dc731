# What a job's program finds among the builtins. Run by site.py (immure.pth) when an interpreter starts, so it is kept
# small: what is behind the functions is read at their first call (immure-bridge.py). `directory` is where both lie.

import _thread
import builtins
import os
import stat

guard = _thread.RLock()  # a signal handler may come back to it
loaded = {}
ERRORS = RuntimeError, TypeError, ValueError  # shown without the lines of our own that they passed through


def load():
    if "connect" not in loaded:
        with open(os.path.join(directory, "immure-bridge.py")) as file:
            exec(compile(file.read(), file.name, "exec"), {"__name__": "immure-bridge", "loaded": loaded})


def bridge(caller):
    # Descriptors and locks that were copied by fork are not this process's to use.
    if os.getpid() != 2:
        raise RuntimeError(f"{caller}: only the program's first process can do this, not one that it has started")
    with guard:  # the hello is there once, for the one bridge
        load()
        return loaded["connect"](caller)


def call_tool(name, args=None):
    """Call one of the agent's tools and return its answer.

    name: the tool's name, e.g. "search".
    args: a dict of the tool's arguments, e.g. {"query": "weather"}; anything that json.dumps takes. Default: none.

    Returns the answer: parsed where it is JSON (dict, list, number, ...), else its text. Raises RuntimeError with the reason
    if the tool fails, answers too late, or cannot be reached. May be called from several threads at once.

        page = call_tool("fetch", {"url": "https://example.com"})
    """
    try:
        return bridge("call_tool").call(name, args)
    except ERRORS as error:
        raise error.with_traceback(None) from None


def call_tools_parallel(calls):
    """Call several tools at the same time and return their answers, in the order of the calls.

    calls: a list of (name, args) pairs, as call_tool() takes them.

    Waits until all have ended; if any failed, raises RuntimeError for the first of those in the list.

        a, b = call_tools_parallel([("search", {"query": "a"}), ("search", {"query": "b"})])
    """
    try:
        return bridge("call_tools_parallel").call_parallel(calls)
    except ERRORS as error:
        raise error.with_traceback(None) from None


def set_result(data, files=None):
    """Give back the program's result. What is printed is separate from it.

    data: anything that json.dumps takes: dict, list, str, number, bool or None. Anything else raises TypeError or ValueError.
    files: paths of files to return along with it, e.g. ["plot.png"]; they must lie in the working directory when the
        program ends. Missing ones are skipped.

    If called more than once, the last call counts.

        set_result({"mean": 4.2}, files=["plot.png"])
    """
    try:
        bridge("set_result").set_result(data, files)
    except ERRORS as error:
        raise error.with_traceback(None) from None


def install_package(name):
    """Install a Python package, so that it can be imported afterwards.

    name: as pip takes it: a name, "name==1.2", or the path of a wheel or directory in the working directory.

    Raises RuntimeError with the reason if it cannot be installed.

        install_package("tabulate")
    """
    raise RuntimeError(f"pip install {name} failed: this server installs no packages")


for function in call_tool, call_tools_parallel, set_result, install_package:
    setattr(builtins, function.__name__, function)

# The bridge's descriptors are not for programs that this one starts.
try:
    if os.getpid() == 2 and stat.S_ISFIFO(os.fstat(3).st_mode) and stat.S_ISFIFO(os.fstat(4).st_mode):
        os.set_inheritable(3, False)
        os.set_inheritable(4, False)
except OSError:
    pass
