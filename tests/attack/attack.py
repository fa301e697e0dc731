"""An attack: a program, what it tries, what refuses it, and how that shows.

The files of programs/ are the classes. In those in Python each function is one attack: its body is the program, its docstring
says what it tries. Nothing of it runs here; its text is sent. Those for Node are one text each, see load_node()."""

import ast
import importlib
import inspect
import json
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PRELUDE = (HERE / "prelude.py").read_text()
ATTACKS = []


@dataclass
class Attack:
    name: str
    kind: str         # the class: its file's name
    tries: str
    refused_by: str
    code: str
    expect: dict      # what the program must say, exactly: what -> outcome, a regular expression
    denied: dict      # denied_syscalls, exactly: name -> count, or None for any
    verdict: dict     # fields of the reply
    request: dict     # fields of the request
    outside: bool     # harmless and successful without a jail: run there, too, to see that it would be noticed
    alone: bool       # disturbs others or is disturbed by them
    unfiltered: bool  # run without a filter, too: the next layer must hold
    runtime: str = "python"
    in_image: dict = field(default_factory=dict)  # what it must say there instead
    check: object = field(default=None, repr=False)   # check(verdict) yields what else is wrong with the reply
    victim: object = field(default=None, repr=False)  # an attack that fails: the job that runs at the same time
    first: object = field(default=None, repr=False)   # the job that has run before

    def checks(self, function):
        self.check = function
        return self

    def beside(self, request=None, **expect):
        """Decorates the program of a job that holds still while this attack runs (see hold()), and what it must say."""
        def decorate(function):
            self.victim = make(function, self.refused_by, expect, **(request or {}))
            return self
        return decorate

    def behind(self, **options):
        """Decorates the program of a job that has ended before this one begins."""
        def decorate(function):
            self.first = make(function, self.refused_by, {}, **options)
            return self
        return decorate

    def __str__(self):
        return f"{self.kind}.{self.name}"


def body_of(function):
    """The text of a function's body, without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    body = ast.parse(source).body[0].body[1:]
    if not body:
        return ""
    return textwrap.dedent("\n".join(source.splitlines()[body[0].lineno - 1:])) + "\n"


def make(function, refused_by, expect, denied=(), verdict=None, outside=False, alone=False, unfiltered=False, in_image=(), **request):
    assert "timeout_ms" not in request or "begun" in inspect.getsource(function), "such a deadline may pass before the attack begins"
    return Attack(
        name=function.__name__, kind=function.__module__, tries=" ".join(function.__doc__.split()), refused_by=refused_by,
        code=PRELUDE + "\n\n" + body_of(function), expect=expect,
        denied=denied if denied is None or isinstance(denied, dict) else dict.fromkeys(denied),
        verdict={"status": "success", "exit_code": 0, **(verdict or {})}, request=request, outside=outside, alone=alone,
        unfiltered=unfiltered, in_image=dict(in_image))


def attack(refused_by, expect=(), **options):
    """Decorates a program. `expect` of None is anything at all. `denied` names the system calls that the reply must name, in any number; a dict counts them.
    What is no field of an Attack is one of the request."""
    def decorate(function):
        ATTACKS.append(make(function, refused_by, expect if expect is None else dict(expect), **options))
        return ATTACKS[-1]
    return decorate


def findings(stdout):
    """-> {what: outcome}; lines that are not the attack's own are kept whole."""
    return dict(line.partition(": ")[::2] for line in stdout.splitlines())


def judge(tried, verdict, secrets):
    """-> what is wrong with a reply: an attack that was not refused as it should be, or that learned something."""
    wrong = [f"the reply holds the secret {name}" for name, secret in secrets.items() if secret in json.dumps(verdict)]
    for name, value in tried.verdict.items():
        if verdict.get(name) != value and not (isinstance(value, list) and value and verdict.get(name) in value):
            wrong.append(f"{name} is {verdict.get(name)!r}, not {value!r}; stderr: {verdict.get('stderr', '')[-400:]}")
    said = findings(verdict.get("stdout", ""))
    if tried.expect is not None:
        for what in sorted(set(said) | set(tried.expect)):
            outcome = said.get(what, "nothing said")
            if what not in tried.expect or not re.fullmatch(tried.expect[what], outcome):
                wrong.append(f"{what}: {outcome[:400]}, not {tried.expect.get(what, 'expected')}")
    named = {row["name"]: row["count"] for row in verdict.get("denied_syscalls", [])}
    if tried.denied is not None and (set(named) != set(tried.denied) or any(count not in (None, named[name]) for name, count in tried.denied.items())):
        wrong.append(f"denied_syscalls is {named}, not {tried.denied}")
    return wrong + list(tried.check(verdict) if tried.check else [])


# //# NAME, then what it tries, then its options as JSON (none: true), then the program.
NODE_ATTACK = re.compile(r"^//# (?P<name>\w+)\n(?P<tries>(?:^// .*\n)+)(?P<options>(?:^//! .*\n)+)(?P<code>(?:(?!^//# ).*\n)*)", re.M)


def load_node(path):
    """The attacks of one file of programs for Node."""
    prelude = (HERE / "programs/node_prelude.cjs").read_text()
    for found in NODE_ATTACK.finditer(path.read_text()):
        options = dict(re.match(r"//! (\w+)(?:: (.*))?$", line).groups() for line in found["options"].splitlines())
        refused_by = options.pop("refused_by")
        options = {name: True if text is None else json.loads(text) for name, text in options.items()}
        first, request, verdict = options.pop("first", None), options.pop("request", {}), options.pop("verdict", {})
        yield Attack(
            name=found["name"], kind=path.stem, tries=" ".join(found["tries"].replace("// ", "").split()), refused_by=refused_by,
            code=prelude + "\n" + found["code"], expect=options.pop("expect"), denied=options.pop("denied", {}),
            verdict={"status": "success", "exit_code": 0, **verdict} if verdict is not None and "status" not in verdict else verdict or {},
            request={"runtime": "node", **request}, outside=options.pop("outside", False), alone=False, unfiltered=False,
            runtime="node", first=first and node_job(first["code"]))
        assert not options, options


def node_job(code):
    """A job that runs before an attack."""
    return Attack(name="first", kind="node", tries="", refused_by="", code=code, expect={}, denied={}, verdict={"status": "success"},
                  request={"runtime": "node"}, outside=False, alone=False, unfiltered=False, runtime="node")


def load():
    """All attacks, those first that may run beside others."""
    if not ATTACKS:
        for path in sorted((HERE / "programs").glob("*.py")):
            importlib.import_module(path.stem)
        for path in sorted((HERE / "programs").glob("node_*.cjs")):
            ATTACKS.extend(load_node(path))
        names = [str(one) for one in ATTACKS]
        assert len(names) == len(set(names)), "two attacks of one name"
        ATTACKS.sort(key=lambda one: one.alone)
    return ATTACKS
