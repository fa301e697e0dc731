# Makes the interpreter of a template ready for its jobs. Runs once, in the template, before any job exists; template.c calls
# prepare(), which leaves in this namespace what C is to remember. What it imports itself is gone again afterwards.
import gc
import sys

randoms = seed = renew_numpy = None
REHEARSALS = 20  # code is specialised when it has run eight times; its callers come later

# Modules that cannot be shared by jobs.
REFUSED = {
    "multiprocessing.process": "its key for connections, and the directory it remembers, would be every job's",
}
# What a library reads when it is loaded: threads that it would start then, and windows that it would look for.
VARIABLES = {"BLIS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
             "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "MPLCONFIGDIR": "/tmp/matplotlib"}
# Of code that does much, less is enough.
SLOW_REHEARSALS = 2
# Looked for when an interpreter starts, whether they are there or not.
CUSTOMIZERS = ["sitecustomize", "usercustomize"]


class Refused(Exception):
    pass


def open_descriptors():
    import posix
    found = set()
    for name in posix.listdir("/proc/self/fd"):
        try:
            posix.fstat(int(name))
            found.add(int(name))
        except OSError:  # that of the directory itself
            pass
    return found


def refuse_descriptors(before, name):
    left = open_descriptors() - before
    if left:
        raise Refused(f"{name}: it leaves descriptors open, which jobs would not have: {sorted(left)}")


def import_modules(modules):
    import os
    added = VARIABLES.keys() - os.environ.keys()
    for name in added:
        os.environ[name] = VARIABLES[name]
    for name in modules:
        before = open_descriptors()
        try:
            __import__(name)
        except BaseException as error:
            raise Refused(f"{name}: {error!r}")
        refuse_descriptors(before, name)
    for name in added:
        del os.environ[name]


def refuse_modules():
    for name, why in REFUSED.items():
        if name in sys.modules:
            raise Refused(f"{name}: {why}")


def prelude_variable(name):
    """None where there is no prelude, or another one."""
    import builtins
    return getattr(getattr(builtins, "call_tool", None), "__globals__", {}).get(name)


def rehearse(code):
    """In a context of its own: what it sets there goes with it."""
    import _contextvars
    names = {"__name__": "rehearsal", "__builtins__": __builtins__}
    _contextvars.Context().run(exec, compile(code, "<rehearsal>", "exec"), names)


def rehearse_all(codes, times):
    """With a pipe for stdout, of which nobody reads."""
    import posix
    kept, (reader, writer) = posix.dup(1), posix.pipe()
    posix.dup2(writer, 1)
    for code in codes:
        for _ in range(times):
            rehearse(code)
    posix.dup2(kept, 1)
    for descriptor in kept, reader, writer:
        posix.close(descriptor)


def forget_directory(path):
    finder = sys.path_importer_cache.get(path)
    if hasattr(finder, "invalidate_caches"):
        finder.invalidate_caches()
    else:
        sys.path_importer_cache.pop(path, None)


def forget_directories():
    """What lies in these differs from job to job: those of PYTHONPATH, and the session's packages."""
    import os
    packages = prelude_variable("packages")
    for path in [packages, *os.environ.get("PYTHONPATH", "").split(":")]:
        if isinstance(path, str) and path:
            forget_directory(path)


def forget_start():
    """Everything that is there because a script was started which is no job's (start.py)."""
    for path in sys.argv[0], "":
        sys.path_importer_cache.pop(path, None)
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        del sys.path[0]


def forget_uuid():
    """libuuid keeps the node and the clock sequence that it has drawn, and has no way to forget them; a jail has no network card to
    ask instead. So the module goes without, and draws both when they are wanted."""
    uuid = sys.modules.get("uuid")
    if uuid:
        uuid._generate_time_safe = uuid._node = uuid._last_timestamp = None
        uuid._GETTERS = []


def find_randoms():
    """Every generator that a module has made, also one that it hides in a container; but for random's own, which seeds itself."""
    if "_random" not in sys.modules:
        return
    random = sys.modules.get("random")
    kind, system = sys.modules["_random"].Random, getattr(random, "SystemRandom", ())
    found = []

    def look_at(things):
        for thing in things:
            if isinstance(thing, kind):
                if not isinstance(thing, system) and thing is not getattr(random, "_inst", None) and thing not in found:
                    found.append(thing)
            elif type(thing) in (dict, tuple) and not gc.is_tracked(thing):
                look_at(gc.get_referents(thing))  # out of the collector's sight are those that hold nothing which it would look at

    for thing in gc.get_objects():
        look_at(gc.get_referents(thing))
    if found:
        globals().update(randoms=found, seed=kind.seed)


def find_numpy():
    """Every generator of numpy that a module has made, with numpy's own, and a function that seeds them anew, as a new one is seeded.
    What it has drawn ahead, by pairs, is forgotten here."""
    random = sys.modules.get("numpy.random")
    if not random:
        return
    kind, states, sequence = random.BitGenerator, random.RandomState, random.SeedSequence
    found = []
    for thing in gc.get_objects():
        if issubclass(type(thing), kind):
            found.append((type(thing).__init__, thing))
        elif issubclass(type(thing), states):
            drawn = thing.get_state(legacy=False)
            drawn.update(has_gauss=0, gauss=0.0)
            thing.set_state(drawn)

    def renew_numpy():
        for begin, thing in found:
            begin(thing)

    renew_numpy()
    theirs = {id(getattr(thing, "_seed_seq", None) or getattr(thing, "seed_seq", None)) for _, thing in found}
    if any(issubclass(type(thing), sequence) and id(thing) not in theirs for thing in gc.get_objects()):
        raise Refused("numpy.random: a module keeps a SeedSequence, and every job would draw the same numbers of it")
    globals().update(renew_numpy=renew_numpy)


def wait_for_threads():
    """A timer that was cancelled is about to end."""
    threading = sys.modules.get("threading")
    for thread in threading.enumerate() if threading else ():
        if thread is not threading.current_thread():
            thread.join(1)


def is_built_in(module):
    return getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen")


def find_module_names():
    """What is imported and a file could take the place of."""
    names = {name for name, module in list(sys.modules.items())
             if "." not in name and name != "__main__" and not is_built_in(module)}
    return sorted(name.encode("utf-8", "surrogateescape") for name in names.union(CUSTOMIZERS))


def find_added_builtins():
    """The names among the builtins that are there only since the library could be imported: CPython keeps a copy from before, which
    ends with the exceptions, and has its first state again when it ends."""
    import builtins
    names = list(vars(builtins))
    return names[names.index("open"):] if "open" in names else []


def new_main():
    """What __main__ holds before a script, in the order of a fresh one. template.c makes the module, and calls this, at the end."""
    fresh = sys.modules["__main__"].__dict__
    names = {name: None for name in fresh if name.startswith("__") and name.endswith("__")}
    names.update(__name__="__main__", __builtins__=fresh["__builtins__"])
    if "__annotations__" in names:
        names["__annotations__"] = {}
    return names


def prepare(modules, library, job, packages):
    before = None
    try:
        forget_start()
        import_modules(modules)
        descriptors = open_descriptors()
        rehearse_all([packages], SLOW_REHEARSALS)  # what they import is theirs: numpy's cannot be loaded twice
        refuse_descriptors(descriptors, "packages")
        refuse_modules()
        load = prelude_variable("load")
        if load:  # what is behind the prelude's functions is read at their first call, unless it is there already
            load()
        before = dict(sys.modules)
        rehearse_all([library, job], REHEARSALS)
        forget_directories()
        forget_uuid()
        find_randoms()
        find_numpy()
        wait_for_threads()
        import atexit
        import os
        import _frozen_importlib_external
        import _signal
        import _thread
        threading = sys.modules.get("threading")
        globals().update(
            added_builtins=find_added_builtins(), environ_data=os.environ._data, module_names=find_module_names(),
            source_loader=_frozen_importlib_external.SourceFileLoader, run_exitfuncs=atexit._run_exitfuncs,
            count_exitfuncs=atexit._ncallbacks, set_signal=_signal.signal, get_signal=_signal.getsignal,
            collect=gc.collect, callbacks=gc.callbacks, is_enabled=gc.isenabled,
            count_threads=_thread._count,
            set_native_id=getattr(getattr(threading, "_main_thread", None), "_set_native_id", None),
            ssl_add=getattr(sys.modules.get("_ssl"), "RAND_add", None))
    except Refused:
        raise
    except BaseException as error:
        raise Refused(f"making ready for jobs: {error!r}")
    finally:
        for name in sys.modules.keys() - (before or sys.modules).keys():
            del sys.modules[name]
