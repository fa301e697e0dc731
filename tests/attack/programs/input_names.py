"""Names, variables and wishes of a request that lead elsewhere: a caller attacks, or hands on what a program has chosen."""

import os

from attack import attack
from prelude import found, loot

DECODED = "requests are decoded strictly; nothing is made before"


def refusal(field, code="invalid_field", **request):
    """A request that is refused for this field, before anything runs."""
    verdict = {"status": None, "exit_code": None, "code": code, "field": field}
    return attack(DECODED, None, verdict=verdict, **request)


def named(*names):
    return {"files": [{"name": name, "content": "planted"} for name in names]}


@refusal("files[0].name", **named("../../../../../../tmp/planted"))
def file_above():
    """Names a file that lies above the workspace."""


@refusal("files[0].name", **named("/etc/planted"))
def absolute_file():
    """Names a file by an absolute path."""


@refusal("files[0].name", **named("a/../../../planted"))
def file_by_a_detour():
    """Names a file above the workspace by way of one within."""


@refusal("files[0].name", **named("a/./b"))
def file_with_a_dot():
    """Names a file with a part that stands still."""


@refusal("files[0].name", **named("a//b"))
def file_with_an_empty_part():
    """Names a file with an empty part."""


@refusal("files[0].name", **named("directory/"))
def file_that_ends_in_a_slash():
    """Names a directory."""


@refusal("files[0].name", **named(""))
def file_without_a_name():
    """Names nothing."""


@refusal("files[0].name", **named("."))
def file_that_is_the_workspace():
    """Names the workspace itself."""


@refusal(None, "invalid_json", **named("a\0b"))
def file_with_nul():
    """Names a file by a name that C sees the end of in its middle."""


@refusal("files[0].name", **named("x" * 256))
def file_with_a_long_name():
    """Names a file by more than a name's length."""


@refusal("files[0].name", **named("/".join(["x" * 200] * 30)))
def file_with_a_long_path():
    """Names a file by more than a path's length."""


@refusal("files[0].data", files=[{"name": "x", "data": "!!!!"}])
def file_of_broken_base64():
    """Gives content that does not decode."""


@attack("a file and a directory of one name are refused", None,
        verdict={"status": None, "exit_code": None}, **named("a", "a/b"))
def file_that_is_a_directory():
    """Names a file below another file."""


@attack("the second file of a name is refused", None, verdict={"status": None, "exit_code": None}, **named("twice", "twice"))
def file_given_twice():
    """Names a file twice."""


@attack("names are bytes: what is odd about them is the caller's own business", {"names": "True"},
        **named("new\nline", "-rf", "...", "a b", "\u202e", "$(id)", "*", "{}", "'\"", "\\", "\x7f", "\x01"))
def odd_file_names():
    """Names files so that shells, terminals and logs stumble."""
    found("names", len(os.listdir("/workspace")) == 12)


@refusal("env", env={"LD_PRELOAD": "/workspace/planted.so"})
def variable_of_the_loader():
    """Has the dynamic linker load a library of the request's."""


@refusal("env", env={"PYTHONPATH": "/proc/self/cwd"})
def variable_of_the_interpreter():
    """Has the interpreter look for modules elsewhere."""


@refusal("env", env={"GCONV_PATH": "/workspace"})
def variable_of_the_c_library():
    """Has the C library load converters of the request's."""


@refusal("env", env={"A=B": "x"})
def variable_with_an_equals_sign():
    """Smuggles a variable in another one's name."""


@refusal(None, "invalid_json", args=["a\0b"])
def argument_with_nul():
    """Cuts an argument short."""


@refusal("limits.memory_bytes", limits={"memory_bytes": 1 << 40})
def more_memory():
    """Wishes for more than the policy gives."""


@refusal("limits.pids", limits={"pids": 0})
def no_limit():
    """Wishes for none, which elsewhere means no limit."""


@refusal("policy", policy="../../etc/passwd")
def policy_by_path():
    """Names a policy by a path."""


@refusal("runtime", runtime="/bin/sh")
def runtime_by_path():
    """Names a runtime by a path."""


@attack("names of outputs are matched with what lies in the workspace, never opened", outputs=["[.][.]/[.][.]/etc/passwd", "?[.]/*/passwd", "*/*/*"],
        verdict={"files": [], "output_files": []})
def outputs_above():
    """Asks for files that lie above the workspace, by patterns that a directory's name for the one above matches."""


@refusal("outputs[0]", outputs=["../../../../etc/passwd"])
def outputs_above_by_name():
    """The same by their names."""


@attack("uploaded modules are the job's own", {"module": "True", "next": "ENOENT"}, 
        files=[{"name": name + ".py"} for name in ("statistics", "sitecustomize", "usercustomize")])
def modules_in_the_way():
    """Brings modules with names of the standard library's; they are its own and gone with it."""
    found("module", os.path.exists("/workspace/sitecustomize.py"))
    loot("next", "/tmp/sitecustomize.py")
