# Runs the calls of a session whose interpreter lives on (`state: KERNEL` in a policy), one after another, in the same
# __main__. Between two calls the main thread stands still in a system call that PID 1 does not answer (jail/standby.h).
#
# A signal handler of the program's may raise anywhere in here, and calls must go on all the same. So a call is a row of steps,
# each of which can be begun again until it has named the next one. The program owns this interpreter: nothing here protects
# the server from it, only an honest program from its own accidents.

import _signal
import builtins
import ctypes
import errno
import io
import linecache
import os
import sys
import traceback

STANDBY_FD = 63  # stays open, so that no file of the program's gets this number
REMEMBERED_CALLS = 1000  # whose lines a traceback shows
ATTEMPTS = 8
OWN_PID = os.getpid()

libc = ctypes.CDLL(None, use_errno=True)
prelude = builtins.call_tool.__globals__
loaded = prelude["loaded"]
try:
    prelude["read"]("immure-results", bridge=prelude["bridge"])
except OSError:
    pass  # this runtime has none
unbuffered = sys.stdout.write_through
main = type(sys)("__main__")
names = []


class state:
    step = None
    status = 0  # of the last call
    number = 0
    mask = None  # of signals, while all are blocked
    answers = []  # to the system call that waits
    interrupt = _signal.default_int_handler  # the program's own handler of SIGINT, while it is not in place
    early = False  # a SIGINT has come for the call before that
    stdin = sys.stdin
    args = source = name = None
    error, has_run = None, False
    attempts = 0  # to tell how the call ended


def calm(number, frame):
    """SIGINT's handler while nothing of the program runs: what comes before it is kept for it, what comes later is for nobody."""
    state.early = True


# ---- The steps of a call ----

def wait():
    """Until there is a call. PID 1 has put its pipes into their places then, and its program into STANDBY_FD."""
    hold_signals()  # any would end the wait
    if not state.answers:
        _signal.sigtimedwait({_signal.SIGINT}, 0)  # one of the call that has ended
        state.early = False
        # Whatever is raised right behind the answer, there it is: asking again would mean that this call has ended.
        state.answers.extend(map(libc.inotify_init1, (state.status,)))
    code = ctypes.get_errno()
    if code == errno.EINTR:  # the call that has ended was interrupted, perhaps just now
        state.answers.clear()
        return
    if code != errno.EPERM:
        os._exit(70)  # nobody noticed: this is no jail that waits
    state.step = begin


def begin():
    if state.mask is not None:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, state.mask)
        state.mask = None
    args, state.source = read_program(STANDBY_FD)
    state.name = f"<call {state.number + 1}>"
    sys.argv[:] = [state.name, *args]
    prepare_streams()
    remember(state.name, state.source)
    # The bridge of the call before is closed.
    bridge = loaded.pop("bridge", None)
    if bridge:
        bridge.closed = bridge.closed or "its call has ended"
    state.error, state.has_run, state.attempts = None, False, 0
    if "begin" in loaded:
        loaded["begin"]()
    state.step = run


def run():
    try:
        state.step = report  # never twice
        _signal.signal(_signal.SIGINT, state.interrupt)
        if state.early:
            _signal.raise_signal(_signal.SIGINT)
        run_source()
        state.has_run = True
    except BaseException as raised:
        state.error = raised


def report():
    keep_calm()
    hold_signals()
    state.attempts += 1
    state.status = 1  # if what there is to tell cannot be told
    if state.attempts <= ATTEMPTS:
        if state.attempts == 1:
            show_results()
        state.status = tell(state.error)
    state.step = leave
    state.attempts = 0


def leave():
    state.attempts += 1
    if state.attempts <= ATTEMPTS:
        flush()
    if os.getpid() != OWN_PID:
        os._exit(state.status)  # the program has forked, and this is the child's end
    state.error = None
    state.number += 1
    state.answers.clear()
    state.step = wait


# ---- What they do ----

def run_source():
    if "run" not in loaded:
        exec(compile(state.source, state.name, "exec", dont_inherit=True), main.__dict__)
        return
    code, value = compile_source()
    loaded["run"](code, value, main.__dict__)


def compile_source():
    try:
        return loaded["split"](state.source, state.name)
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        pass  # it is none, or too much for this way
    return compile(state.source, state.name, "exec", dont_inherit=True), None


def read_program(fd):
    """-> (arguments, source)"""
    data = b""
    while piece := os.pread(fd, 1 << 24, len(data)):
        data += piece
    count, rest = data.split(b"\0", 1)
    *args, source = rest.split(b"\0", int(count))
    return [os.fsdecode(arg) for arg in args], source


def reopen(number, mode):
    raw = open(number, f"{mode}b", closefd=False)
    old = sys.__stdin__
    return io.TextIOWrapper(raw, old.encoding, old.errors, line_buffering=number == 2, write_through=unbuffered)


def prepare_streams():
    # What an earlier call has left in a buffer was not for this one. One that the program has put there stays.
    if sys.stdin is state.stdin or getattr(sys.stdin, "closed", False):
        sys.stdin = state.stdin = reopen(0, "r")
    for number, stream in (1, "stdout"), (2, "stderr"):
        if getattr(getattr(sys, stream), "closed", False):
            setattr(sys, stream, reopen(number, "w"))


def remember(name, source):
    text = source.decode(errors="replace") + "\n"
    linecache.cache[name] = len(source), None, text.splitlines(keepends=True), name
    names.append(name)
    while len(names) > REMEMBERED_CALLS:
        linecache.cache.pop(names.pop(0), None)


def keep_calm():
    handler = _signal.getsignal(_signal.SIGINT)
    if handler is not calm:
        state.interrupt = handler or _signal.default_int_handler  # None: not Python's
        _signal.signal(_signal.SIGINT, calm)


def hold_signals():
    """Until begin(): a handler that raises would cut off the call's traceback, its results or what its buffers hold."""
    if state.mask is None:
        state.mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())


def tell(error):
    """-> the exit status, as of a program of its own"""
    if error is None:
        return 0 if state.has_run else 1
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    show(error)
    return 128 + _signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def show_results():
    if "end" in loaded and os.getpid() == OWN_PID:
        try:
            loaded["end"](state.error)
        except Exception:
            pass  # something of the program's own


def show(error):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename in (__file__, *loaded.get("own_files", ())):
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(error)  # knows the lines of calls
        else:
            sys.excepthook(type(error), error, trace)
    except Exception:
        pass  # there is no stderr


def flush():
    for stream in sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__:
        try:
            stream.flush()
        except Exception:
            pass  # closed, or something of the program's own
    libc.fflush(ctypes.c_void_p.in_dll(libc, "stdout"))


def loop():
    while True:
        try:
            while True:
                state.step()
        except BaseException as raised:
            if state.step is report and state.error is None and not state.has_run:
                state.error = raised


main.__builtins__ = builtins
sys.modules["__main__"] = main
sys.path.pop(0)  # where this file lies
_signal.signal(_signal.SIGINT, calm)
state.step = wait
while True:
    try:
        loop()
    except BaseException:
        pass  # two handlers have raised at once
