# What a job's program finds among the builtins. Run by site.py (immure.pth) when an interpreter starts, so it is kept
# small: what is behind the functions is read at their first call (immure-bridge.py, immure-install.py). `directory` is where
# all of it lies.

import _frozen_importlib_external as importing
import _thread
import builtins
import os
import stat
import sys

guard = _thread.RLock()  # a signal handler may come back to it
loaded = {}
ERRORS = RuntimeError, TypeError, ValueError  # shown without the lines of our own that they passed through


def read(name, **given):
    with open(os.path.join(directory, f"{name}.py")) as file:
        exec(compile(file.read(), file.name, "exec"), {"__name__": name, "__file__": file.name, "loaded": loaded, **given})


def load():
    if "connect" not in loaded:
        read("immure-bridge")


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

    data: anything that json.dumps takes: dict, list, str, number, bool or None, in at most 512 levels. Anything else raises
        TypeError or ValueError.
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
    """Install a Python package and what it depends on, so that it can be imported afterwards.

    name: a name, "name==1.2", "name[extra]>=1,<2"; or the path of a wheel, an sdist or a source directory, e.g.
        "./tabulate-0.9-py3-none-any.whl", "./my_package". Names are looked for in the package index of this server, if it has
        one. Paths always work, if what they depend on is installed or in the index.

    The package stays with the session. Raises RuntimeError with the reason if it cannot be installed.

        install_package("tabulate")
    """
    try:
        with guard:
            if "install" not in loaded:
                read("immure-install", packages=packages, bridge=bridge)
        loaded["install"](name)
    except ERRORS as error:
        raise error.with_traceback(None) from None


def run_with_results(path, namespace):
    """The program of a job whose results are wanted. Called by a template's job (jail/runtime/python/job.c)."""
    del os.environ["IMMURE_RESULTS"]
    read("immure-results", bridge=bridge)
    return loaded["run_file"](path, namespace)


for function in call_tool, call_tools_parallel, set_result, install_package:
    setattr(builtins, function.__name__, function)

# Where install_package() puts what it installs, as pip's --user does below PYTHONUSERBASE; in the workspace, so that it is there
# for later programs of the session, and behind the standard library. Its .pth files are not read.
packages = None
if "HOME" in os.environ:
    packages = os.path.join(os.environ["HOME"], ".packages/lib/python%d.%d/site-packages" % sys.version_info[:2])
    if packages not in sys.path:
        sys.path.append(packages)


class Whole(importing.FileFinder):
    """Finds what is a module, and no directory that only looks like a package."""

    def find_spec(self, name, target=None):
        spec = super().find_spec(name, target)
        return spec if spec and spec.loader else None


# Debian keeps parts of its packages beside the standard library, where the rest of them is not to be had: such a part would be
# imported as an empty package. Where the rest is, so are the parts.
library = os.path.dirname(os.__file__)
if not os.path.isdir("/usr/lib/python3/dist-packages"):
    importing.PathFinder._path_importer_cache(library).__class__ = Whole
    sys.path_importer_cache[library + "/dist-packages"] = importing._bootstrap.BuiltinImporter  # finds nothing there

# A process of pip's, which finds its index that way.
if "IMMURE_INDEX_RELAY" in os.environ:
    read("immure-install", packages=packages, bridge=bridge)
    loaded["connect_through"](os.environ["IMMURE_INDEX_RELAY"])

# The bridge's descriptors are not for programs that this one starts.
try:
    if os.getpid() == 2 and stat.S_ISFIFO(os.fstat(3).st_mode) and stat.S_ISFIFO(os.fstat(4).st_mode):
        os.set_inheritable(3, False)
        os.set_inheritable(4, False)
except OSError:
    pass

# The results of a job that an interpreter starts for are wanted.
if "IMMURE_RESULTS" in os.environ and os.getpid() == 2:
    del os.environ["IMMURE_RESULTS"]
    read("immure-results", bridge=bridge)
    loaded["await_program"]()
