# What a program shows beside what it prints (`results` of a request, every call of a kernel): the value of its last expression,
# what it gives to display(), its open figures, and the exception that it ends with. They are mime bundles, asked for as IPython
# asks objects for them. Read by immure-prelude.py where a job's results are wanted, and by immure-kernel.py.
#
# The program's objects may do anything when they are asked: whatever they raise is told on stderr, and is not the program's end.
# The limits are those that the server has; what is beyond them is not sent, and not even made where the number is reached.

import _frozen_importlib_external as importing
import binascii
import builtins
import io
import os
import sys

AST_ONLY = 0x400  # ast.PyCF_ONLY_AST
TEXT_BYTES_MAX = 65536  # of text/plain, which every object has, and of an exception's texts
JSON_LEVELS_MAX = 60
CUT = "... [cut]"
CANARY = "_ipython_canary_method_should_not_exist_"
METHODS = (("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("image/svg+xml", "_repr_svg_"),
           ("image/png", "_repr_png_"), ("application/pdf", "_repr_pdf_"), ("image/jpeg", "_repr_jpeg_"),
           ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"),
           ("application/javascript", "_repr_javascript_"))
PYPLOT = "matplotlib.pyplot"
OWN_FILES = __file__, "/immure/immure-kernel.py"


class state:
    count = size = 0  # of what has been sent
    cut = False  # the server knows that something was left out
    shown = {}  # by id, the figures that were shown and are not closed here; held, so that no other gets such an id


# ---- What goes over the bridge ----

def clean(text):
    """What JSON and the server take, of any str."""
    return str.encode(text, "utf-8", "replace").decode().replace("\0", "\ufffd")


def clip(text):
    if len(text) <= TEXT_BYTES_MAX:
        return clean(text)
    tell_cut()
    return clean(text[:TEXT_BYTES_MAX]) + CUT


def connect():
    return bridge("display")


def post(members):
    try:
        connect().post(b'{"id":0,"op":"show",%b}' % members.encode(), "display")
    except RuntimeError:  # the bridge is closed
        pass


def tell_cut():
    if not state.cut:
        state.cut = True
        post('"type":"left_out"')


def has_room():
    try:
        if state.count < connect().max_shown:
            return True
        tell_cut()
    except RuntimeError:  # there is no bridge, or it is another process's
        pass
    return False


def send(kind, texts):
    """texts: (name, str) pairs; what there is no room for is left out."""
    limits, dumps = connect(), loaded["dumps"]
    room = min(limits.max_shown_bytes, limits.max_all_shown_bytes - state.size, limits.max_frame - 256) - 2
    parts = []
    for name, text in texts:
        part = f"{dumps(clean(name))}:{dumps(text)}"
        size = len(part.encode()) + 1
        if size > room:
            tell_cut()
            continue
        room -= size
        state.size += size
        parts.append(part)
    if parts:
        state.count += 1
        state.size += 2
        post(f'"type":"{kind}","data":{{{",".join(parts)}}}')


# ---- Objects, and what they say of themselves ----

def name_of(obj):
    try:
        return str(type(obj).__name__)
    except Exception:
        return "object"


def complain(error):
    try:
        import traceback
        trace = without_own_frames(error)
        traceback.print_exception(type(error), error, trace)
    except Exception:
        pass  # there is no stderr, or it cannot be told


def attempt(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except NotImplementedError:
        return None
    except Exception as error:
        complain(error)
        return None


def method_of(obj, name):
    """Not of a class, whose methods are its objects'; nor of what claims to have any attribute."""
    try:
        if issubclass(type(obj), type) or getattr(obj, CANARY, None) is not None:
            return None
        method = getattr(obj, name, None)
        return method if callable(method) else None
    except Exception:
        return None


def ask(obj, name, **kwargs):
    method = method_of(obj, name)
    answer = attempt(method, **kwargs) if method else None
    return answer[0] if isinstance(answer, tuple) and answer else answer  # (data, metadata)


def plain(obj):
    try:
        return str.__str__(repr(obj))
    except Exception as error:
        complain(error)
        return f"<unprintable {name_of(obj)} object>"


def png_of(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def is_figure(obj):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(obj, getattr(module, "Figure", ()))


def bundle_of(obj):
    data = {}
    given = ask(obj, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(given, dict):
        data.update((key, value) for key, value in given.items() if isinstance(key, str))
    for mime, name in METHODS:
        if mime not in data:
            data[mime] = ask(obj, name)
    if data["image/png"] is None and is_figure(obj):
        data["image/png"] = attempt(png_of, obj)
        state.shown[id(obj)] = obj
    if "text/plain" not in data:
        data["text/plain"] = plain(obj)
    return data


def json_of(value):
    text = loaded["dumps"](value)
    return text if loaded["count_levels"](text) <= JSON_LEVELS_MAX else None


def text_of(mime, value):
    """As the frame has it: binary data in base64, JSON as its text. None: it is of another type."""
    if mime == "application/json" or mime.endswith("+json"):
        return attempt(json_of, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return binascii.b2a_base64(value, newline=False).decode()
    if not isinstance(value, str):
        return None
    if mime == "text/plain":
        return clip(str.__str__(value))
    is_binary = mime == "application/pdf" or (mime.startswith("image/") and not mime.endswith("+xml"))
    return "".join(clean(value).split()) if is_binary else clean(value)


def texts_of(data):
    texts = []
    for mime, value in data.items():
        text = attempt(text_of, mime, value) if value is not None else None
        if text is not None:
            texts.append((mime, text))
    return texts


def show(kind, obj):
    if not has_room() or show_itself(obj):
        return
    send(kind, texts_of(bundle_of(obj)))


def show_itself(obj):
    """Objects that call display() with what they want to have shown."""
    method = method_of(obj, "_ipython_display_")
    if not method:
        return False
    try:
        method()
        return True
    except NotImplementedError:
        return False
    except Exception as error:
        complain(error)
        return True


def display(*objects, **ignored):
    """Show objects in the reply's `results`, as pictures, tables or text, whichever they know.

        display(frame, figure)
    """
    for obj in objects:
        if os.getpid() == 2:
            show("display", obj)
        else:
            print(plain(obj))  # of a process that the program has started


# ---- Figures ----

def show_figures(*args, **kwargs):
    """Shows the figures that are open, and closes them."""
    pyplot = sys.modules.get(PYPLOT)
    if pyplot is None or os.getpid() != 2 or not hasattr(pyplot, "get_fignums"):
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if id(figure) not in state.shown:
            show("display", figure)
    state.shown.clear()
    pyplot.close("all")


class ShowingLoader(importing.SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)
        module.show = show_figures


class PyplotFinder:
    """Puts show_figures() into the place of plt.show() when that is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != PYPLOT:
            return None
        spec = importing.PathFinder.find_spec(name, path, target)
        if spec and type(spec.loader) is importing.SourceFileLoader:
            spec.loader = ShowingLoader(spec.loader.name, spec.loader.path)
        return spec


def prepare():
    builtins.display = display
    os.environ.setdefault("MPLBACKEND", "Agg")
    if PYPLOT in sys.modules:
        sys.modules[PYPLOT].show = show_figures
    else:
        sys.meta_path.insert(0, PyplotFinder)


# ---- Programs ----

def is_silenced(source, last):
    """A semicolon behind the last expression: its value is not wanted."""
    lines = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[last.end_lineno - 1:]
    return b"".join(lines[:1])[last.end_col_offset:].lstrip().startswith(b";")


def split(source, name):
    """-> the code of all but the last expression, and of that, if the program ends with one"""
    import _ast
    tree = compile(source, name, "exec", AST_ONLY, dont_inherit=True)
    last, value = tree.body[-1] if tree.body else None, None
    if isinstance(last, _ast.Expr) and not is_silenced(source, last):
        value = compile(_ast.Expression(last.value), name, "eval", dont_inherit=True)
        if len(tree.body) > 1 or not isinstance(last.value, _ast.Constant):  # which may be the module's own text
            tree.body.pop()
    return compile(tree, name, "exec", dont_inherit=True), value


def without_own_frames(error):
    trace = error.__traceback__
    while trace and trace.tb_frame.f_code.co_filename in OWN_FILES:
        trace = trace.tb_next
    return trace


def begin():
    """Of a program, or of a kernel's next call."""
    state.count = state.size = 0
    state.cut = False


def run(code, value, namespace):
    exec(code, namespace)
    result = eval(value, namespace) if value else None
    if result is not None:
        show("execute_result", result)


def end(error=None):
    """What a program leaves behind: figures, and the exception that it ends with."""
    if not isinstance(error, KeyboardInterrupt):
        attempt(show_figures)
    if error is None or isinstance(error, SystemExit) or not has_room():
        return
    import traceback
    error = error.with_traceback(without_own_frames(error))
    try:
        value = str.__str__(str(error))
    except Exception:
        value = "<exception str() failed>"
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    send("error", [("traceback", clip("".join(lines))), ("value", clip(value)), ("name", clip(name_of(error)))])


def run_file(path, namespace):
    """-> None: Python is to run it as it would have done; True: it has run; else what it has raised"""
    try:
        with open(path, "rb") as file:
            source = file.read()
        code, value = split(source, path)
    except (OSError, MemoryError, RecursionError, ValueError):
        return None
    except SyntaxError as error:
        attempt(end, error)
        return None
    try:
        run(code, value, namespace)
        end()
        return True
    except BaseException as error:
        error.__traceback__ = without_own_frames(error)
        attempt(end, error)
        return error


# ---- An interpreter that starts for its program ----

def leave(error):
    """As Python does at the end of a file."""
    if error is True or isinstance(error, SystemExit):
        raise SystemExit(0 if error is True else error.code)
    trace = error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as another:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(another), another, another.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)
    if isinstance(error, KeyboardInterrupt):
        import _signal
        import atexit
        atexit._run_exitfuncs()
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    raise SystemExit(1)


def await_program():
    """Python says when it is about to run the program's file."""
    waiting = [True]

    def on_event(event, args):
        if event != "cpython.run_file" or not waiting:
            return
        waiting.clear()
        on_event.__cantrace__ = False
        namespace = sys.modules["__main__"].__dict__
        path = args[0]
        before = dict(namespace)
        namespace.update(__file__=path, __cached__=None, __loader__=importing.SourceFileLoader("__main__", path))
        outcome = run_file(path, namespace)
        if outcome is not None:
            leave(outcome)
        namespace.clear()
        namespace.update(before)

    on_event.__cantrace__ = True  # a program in there may trace what is its own, and sees no later event come here
    sys.addaudithook(on_event)


for function in begin, split, run, end, run_file, await_program:
    loaded[function.__name__] = function
loaded["own_files"] = __file__,
prepare()
