# The program's end of the bridge; its frames are described in ../../README.md. Read at the first call of a function of
# immure-prelude.py, or when a template starts.
#
# Any number of threads may call. There is no thread of our own: whoever waits for an answer and finds nobody reading reads,
# and hands out what comes. A signal handler may raise anywhere in here. What has been read or written is therefore always
# noted by the same C call that did it, and the next one who comes goes on from there.

import _json
import _signal
import _thread
import errno
import fcntl
import itertools
import os

IN, OUT = 3, 4
READ_BYTES = 65536
STREAM_DATA = 1  # the first byte of a frame with a connection's bytes, where others have "{"
GONE = errno.EBADF, errno.EPIPE


# ---- JSON, by the C functions behind the json module: a program may have a json.py (or re.py) of its own ----

def refuse(value):
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def dumps(value):
    encode = _json.make_encoder({}, refuse, _json.encode_basestring, None, ": ", ", ", False, False, False)
    return "".join(encode(value, 0))


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


LEVELS_MAX = 512  # of values; the server breaks off over frames of more than 640 (JSON_PASSED_DEPTH_MAX in config/format/json.h)
BRACKETS = b"[{]}"
STEPS = bytes.maketrans(BRACKETS, b"\1\1\xff\xff")  # signed: a level down, a level up
NO_BRACKETS = bytes(range(256)).translate(None, BRACKETS)


def count_levels(text):
    """Of a text that dumps() has made, in C: it may have millions of brackets."""
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    steps = memoryview(outside.encode().translate(STEPS, NO_BRACKETS)).cast("b")
    return max(itertools.accumulate(steps), default=0)


def dumps_value(value, caller):
    """As dumps(), for what the program gives."""
    try:
        text = dumps(value)
    except RecursionError:
        why = f"a value may have {LEVELS_MAX} levels, this one has more than the recursion limit allows"
        raise ValueError(f"{caller}: {why}") from None
    if text.count("[") + text.count("{") > LEVELS_MAX and count_levels(text) > LEVELS_MAX:
        raise ValueError(f"{caller}: a value of more than {LEVELS_MAX} levels")
    return text


class Reading:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, staticmethod(refuse_constant)


scan = _json.make_scanner(Reading)


def loads(text):
    """The value, or the text itself where it is not JSON."""
    stripped = text.strip(" \t\n\r")
    try:
        value, end = scan(stripped, 0)
    except (StopIteration, ValueError, RecursionError):
        return text
    return value if end == len(stripped) else text


# ---- Calls ----

def call_frame(caller, name, args=None):
    if not isinstance(name, str):
        raise TypeError(f"{caller}: the tool's name must be a str, not {type(name).__name__}")
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise TypeError(f"{caller}: args must be a dict, not {type(args).__name__}")
    return f'"op":"call","name":{dumps(name)},"args":{dumps_value(args, caller)}'


def result_frame(data, files, most):
    text = dumps_value(data, "set_result")
    if len(text.encode()) > most:
        raise ValueError(f"set_result: the result is larger than {most} bytes")
    if files is None:
        files = []
    elif isinstance(files, (str, bytes, os.PathLike)):
        files = [files]
    paths = [os.path.abspath(os.fsdecode(path)) for path in files]
    return f'"op":"result","data":{text},"files":{dumps(paths)}'


class Bridge:
    def __init__(self):
        self.guard = _thread.RLock()  # a signal handler may come back to it
        self.received, self.needed = [], 4  # bytes objects, in order; how many bytes the next frame takes
        self.outgoing = []  # of [frame, [bytes written, ...]], in order
        self.reader = self.writer = None  # the threads that do it now
        self.waiting = []  # locks of threads that wait for the reader
        self.last_id = 0
        self.unanswered = set()
        self.wanted, self.answers = set(), {}  # ids that somebody waits for, and what came for them
        self.streams = {}  # id -> Stream: connections to a package index (immure-install.py)
        self.closed = None  # why
        self.read_hello()

    def read_hello(self):
        # It has been there before this program, so it is there at once, or these descriptors are something else by now.
        fcntl.fcntl(IN, fcntl.F_SETFL, os.O_NONBLOCK)
        data = os.read(IN, READ_BYTES)
        fcntl.fcntl(IN, fcntl.F_SETFL, 0)
        hello, _ = scan(data[4:].decode(), 0)
        if hello["op"] != "hello" or hello["version"] != 1:
            raise ValueError("not a bridge")
        self.max_frame, self.max_result = hello["max_frame_bytes"], hello["max_result_bytes"]
        self.max_calls = hello["max_calls_in_flight"]
        self.max_shown, self.max_shown_bytes = hello.get("max_shown", 0), hello.get("max_shown_bytes", 0)
        self.max_all_shown_bytes = hello.get("max_all_shown_bytes", 0)

    # Reading

    def take_frame(self):
        if sum(map(len, self.received)) < self.needed:
            return False
        data = b"".join(self.received)
        self.received[:] = [data]
        self.needed = 4 + int.from_bytes(data[:4], "big")
        if len(data) < self.needed:
            return False
        if data[4] == STREAM_DATA:
            self.take_stream(int.from_bytes(data[5:13], "big"), "data", data[13:self.needed])
        else:
            self.take_message(scan(data[4:self.needed].decode(), 0)[0])
        self.received[:] = [data[self.needed:]]
        self.needed = 4
        return True

    def take_message(self, message):
        kind = message["op"]
        if kind == "closed":
            self.closed = self.closed or message["error"]
        elif kind == "answer":
            self.unanswered.discard(message["id"])
            if message["id"] in self.wanted:
                self.answers[message["id"]] = message
        else:
            self.take_stream(message["id"], kind, message)

    def take_stream(self, id, kind, value):
        if id in self.streams:
            self.streams[id].take(kind, value)

    def read(self):
        if not self.take_frame():
            try:
                self.received.extend(map(os.read, (IN,), (READ_BYTES,)))
                ended = not self.received[-1]
            except OSError as error:
                if error.errno not in GONE:
                    raise  # a signal handler's
                ended = True
            if ended:
                self.closed = self.closed or "its descriptors are gone"

    def wait_until(self, condition, caller):
        me = _thread.get_ident()
        while True:
            turn, reading = _thread.allocate_lock(), False
            turn.acquire()
            try:
                with self.guard:
                    if condition():
                        return
                    if self.closed:
                        raise RuntimeError(f"{caller}: the bridge is closed: {self.closed}")
                    if self.reader == me:
                        raise RuntimeError(f"{caller}: called by a signal handler that interrupted another call")
                    if self.reader is None:
                        self.reader, reading = me, True
                    else:
                        self.waiting.append(turn)
                if reading:
                    self.read()
                else:
                    turn.acquire()
            finally:
                with self.guard:
                    if reading:
                        self.reader = None
                        while self.waiting:
                            self.waiting.pop().release()
                    elif turn in self.waiting:
                        self.waiting.remove(turn)

    # What a relay (immure-install.py) takes over the reading with

    def claim(self, thread):
        """Called with the guard held. Whether the thread is the reader from now on."""
        if self.reader is None:
            self.reader = thread
        return self.reader == thread

    def wake(self):
        with self.guard:
            while self.waiting:
                self.waiting.pop().release()

    def release(self):
        with self.guard:
            self.reader = None
        self.wake()

    # Writing

    def write(self, caller):
        me, writing = _thread.get_ident(), False
        try:
            with self.guard:
                if self.writer == me:
                    raise RuntimeError(f"{caller}: called by a signal handler that interrupted another call")
                if self.writer is None:
                    self.writer, writing = me, True
            while writing:
                with self.guard:
                    if not self.outgoing:
                        self.writer, writing = None, False
                        return
                    frame, written = self.outgoing[0]
                    if sum(written) == len(frame):
                        del self.outgoing[0]
                        continue
                written.extend(map(os.write, (OUT,), (memoryview(frame)[sum(written):],)))
        finally:
            if writing:
                self.writer = None

    def send(self, members, caller, stream=None):
        """-> the id to wait for, and of the stream that is to be opened"""
        body = members.encode()
        if len(body) + 32 > self.max_frame:
            raise ValueError(f"{caller}: the arguments are larger than {self.max_frame} bytes")
        self.wait_until(lambda: len(self.unanswered) < self.max_calls, caller)
        with self.guard:
            self.last_id += 1
            id = self.last_id
            self.unanswered.add(id)
            self.wanted.add(id)
            if stream:
                stream.id = id
                self.streams[id] = stream
        self.post(b'{"id":%d,%b}' % (id, body), caller, lambda: id in self.answers)
        return id

    def post(self, frame, caller, answered=lambda: False):
        """Sends a frame that has no answer, or one that somebody waits for."""
        with self.guard:
            self.outgoing.append([len(frame).to_bytes(4, "big") + frame, []])
        try:
            self.write(caller)
        except OSError as error:
            if error.errno not in GONE:
                raise
            # The reason comes through the other pipe.
            self.wait_until(answered, caller)

    def receive(self, id, caller):
        try:
            self.wait_until(lambda: id in self.answers, caller)
            return self.answers[id]
        finally:
            with self.guard:
                self.wanted.discard(id)
                self.answers.pop(id, None)

    # What the functions of the prelude do

    def ask(self, members, caller):
        answer = self.receive(self.send(members, caller), caller)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def call(self, name, args):
        return loads(self.ask(call_frame("call_tool", name, args), "call_tool")["data"])

    def call_parallel(self, calls):
        caller = "call_tools_parallel"
        frames = [call_frame(caller, *((call,) if isinstance(call, str) else call)) for call in calls]
        ids = [self.send(frame, caller) for frame in frames]
        answers = [self.receive(id, caller) for id in ids]
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return [loads(answer["data"]) for answer in answers]

    def set_result(self, data, files):
        self.ask(result_frame(data, files, self.max_result), "set_result")


def connect(caller):
    """Called with the prelude's guard held."""
    if "bridge" not in loaded:
        # A signal handler that raises here would take the hello along.
        blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        try:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
            loaded["bridge"] = Bridge()
        except (OSError, LookupError, StopIteration, TypeError, ValueError):
            raise RuntimeError(f"{caller}: the bridge's descriptors are closed") from None
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)
    return loaded["bridge"]


loaded["connect"] = connect
loaded["dumps"], loaded["loads"], loaded["count_levels"] = dumps, loads, count_levels
