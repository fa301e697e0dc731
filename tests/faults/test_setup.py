"""Every system call between a request and its program fails once with each of four errors: the reply is the verdict that
it would have been or a setup error that says where, nothing is left behind, and the next job works."""

import os
import re
from collections import Counter

import pytest

from harness import wait_for
from injected import COLD, ERRORS, REST_S, WARM, Injected

# What may come of a failure besides the usual verdict and a setup error that names it: (WHO, CALLS, outcome, why).
# `new:1` is PID 1 of a jail on the exec path, `new:2` what makes its network, `new:3` the program's process.
DOCUMENTED = [
    ("new:1", "fsopen fsconfig fsmount", "success without /proc", "EPERM: the policy says that /proc is optional"),
    ("new:2 new:3", "prlimit64", "success without the limit on core files", "EPERM: the parent may not have so much itself"),
    ("warden", "recvmsg", "no reply", "a front that cannot be heard is replaced"),
    ("warden", "fcntl newfstatat fstatfs", "no reply", "so is one whose descriptors cannot be told from forbidden ones"),
    ("warden", "sendmsg", "no reply", "a front that cannot be told anything is replaced"),
    ("warden", "recvmsg", "execution_error", "PID 1 cannot be heard any more: the program has been running"),
    ("warden", "fcntl newfstatat", "execution_error", "what counts denied calls cannot be told from what does not"),
    ("warden", "openat2 newfstatat fcntl getdents64 statx", "error reply", "the program's files cannot be read: no verdict"),
    ("warden", "pread64", "error reply", "nor can what it was denied"),
    ("new:1 init", "sendmsg recvmsg ioctl read wait4", "execution_error", "PID 1 cannot serve: the program has been running"),
    ("new:1 init", "memfd_create ftruncate fcntl mmap", "execution_error", "nor count what it denies"),
    ("template", "recvmsg", "execution_error", "a template that cannot be told anything ends, and its jails with it"),
]


# Of all calls with all errors, every so-manieth is tried; which ones, the seed says. Templates take their time to come back.
EVERY_ONE = os.environ.get("IMMURE_TEST_FAULTS") == "all"
STRIDE_COLD, STRIDE_WARM = (1, 1) if EVERY_ONE else (5, 13)
SEED = int(os.environ.get("IMMURE_TEST_SEED", "1"))


# The parked process closes what is not the program's, and is the program: from then on it opens files.
BEHIND_THE_SETUP = ("close_range", "openat", "newfstatat")


def is_documented(who, call, outcome):
    return any(who in whose.split() and call in calls.split() and outcome == what for whose, calls, what, _ in DOCUMENTED)


def without_proc(stdout):
    return "/proc/self/status:No such file or directory" in stdout


def without_core_limit(stdout, expected):
    return stdout == expected.replace("rlimit 4 1 1\n", "rlimit 4 0 0\n")


def classify(status, body, expected, error):
    """One reply, in a few words; what is not in order is told whole."""
    if status is None:
        return "no reply"
    if status == 200 and body["status"] == "success":
        if body["stdout"] == expected["stdout"] and body["denied_syscalls"] == expected["denied_syscalls"]:
            return "success"
        if body["stdout"] == expected["cold"]:
            return "success on the exec path"
        if body["truncated"]:
            return "success, said to be cut"
        if without_proc(body["stdout"]):
            return "success without /proc"
        if without_core_limit(body["stdout"], expected["stdout"]):
            return "success without the limit on core files"
    elif status == 200 and body["stderr"].startswith("Traceback"):
        return "the program's own"
    elif status == 200 and body["status"] == "execution_error" and body["error_message"] == "The jail was killed from outside.":
        return "execution_error"
    elif status == 500 and body.get("status") == "setup_error":
        sentence = body.get("error_message") or body["error"]
        # A step and a reason, or that PID 1 could not even say which.
        if re.fullmatch(rf".+: {re.escape(os.strerror(error))}(; .+)?", sentence) or sentence.startswith(("PID 1 of the jail died", "the parked jail has ended")):
            return "setup error"
    elif status in (500, 503) and body.get("code") in ("internal_error", "setup_error", "unavailable"):
        return "error reply"
    return f"{status} {str(body)[-600:]}"


def excess(before, after):
    """-> what there is more of now, or less of where there must be some: {name: (then, now)}"""
    counts = {}
    for name, then in before.items():
        now = after[name]
        if isinstance(then, Counter) and isinstance(now, Counter):
            counts |= {f"{name}: {kind}": (then[kind], now[kind]) for kind in now if now[kind] > then[kind]}
        elif isinstance(then, Counter) or isinstance(now, Counter) or now > then:
            counts[name] = (then, now)
    return counts


def nothing_is_left(server, before, where):
    try:
        wait_for(lambda: not excess(before, server.settle()), "rest", REST_S)
    except AssertionError:
        raise AssertionError(f"{where}: left behind, (then, now): {excess(before, server.held())}") from None


class Sweep:
    """One process of one path, call by call."""

    def __init__(self, server, who, tried):
        self.server, self.who, self.tried, self.is_over = server, who, tried, False
        server.settle()
        # A template that does not work costs time and nothing else.
        cold = server.job("cold")[1]["stdout"] if server.warm else None
        self.expected = wait_for(lambda: self.usual(cold), "a job of a template")
        self.before = server.at_rest()

    def usual(self, cold):
        status, body = self.server.job()
        assert (status, body["status"]) == (200, "success"), body
        return None if body["stdout"] == cold else {**body, "cold": cold}

    def inject(self, n, error):
        """-> the name of the call that failed; None if there is no such call"""
        server = self.server
        assert server.tell(f"arm {server.part(self.who)} {n} {error}") == "ok"
        status, body = server.job()
        if server.warm:  # the next jail is being parked
            wait_for(lambda: server.tell("look") != "idle" or server.is_quiet(), "the failure, or rest")
        answer = server.tell("disarm")
        if answer == "idle":
            return None
        fate, call = answer.split()
        if fate == "spared":
            return call
        where = f"{self.who} {n} {call} {os.strerror(error)}"
        outcome = classify(status, body, self.expected, error)
        self.is_over = self.who == "parked" and call in BEHIND_THE_SETUP
        if self.is_over or outcome == "the program's own":
            return call
        self.judge(call, outcome, where)
        self.look_around(call, error, where)
        return call

    def judge(self, call, outcome, where):
        if self.who == "front":
            # What is behind it is one connection.
            fine = ("success", "success, said to be cut", "setup error", "error reply", "no reply")
            assert outcome in fine, f"{where}: {outcome}"
        else:
            fine = ("success", "success on the exec path", "setup error")
            assert outcome in fine or is_documented(self.who, call, outcome), f"{where}: {outcome}"
        self.tried[outcome] += 1

    def look_around(self, call, error, where):
        server = self.server
        assert os.path.exists(f"/proc/{server.warden}"), f"{where}: the warden is gone\n{server.log()[-2000:]}"
        outcome = classify(*server.job(), self.expected, error)
        if server.warm and (outcome == "setup error" or is_documented(self.who, call, outcome)):
            # It was the one whose jail was being parked.
            outcome = classify(*server.job(), self.expected, error)
        assert outcome in ("success", "success on the exec path"), f"{where}: the next job: {outcome}"
        nothing_is_left(server, self.before, where)

    def chosen(self, n):
        """-> the errors that the n-th call is to fail with"""
        if self.who == "parked" and not EVERY_ONE:  # call by call: its end must not be missed
            return [ERRORS[(n + SEED) % len(ERRORS)]]
        stride = STRIDE_WARM if self.server.warm else STRIDE_COLD
        return [error for i, error in enumerate(ERRORS) if (n * len(ERRORS) + i + SEED) % stride == 0]

    def run(self):
        """-> how many calls"""
        n, idle = 1, 0
        # The order of calls differs a little between runs: the end is where there is nothing any more.
        while idle < 3 and not self.is_over:
            if errors := self.chosen(n):
                calls = [self.inject(n, error) for error in errors]
                idle = 0 if any(calls) else idle + 1
            n += 1
        return n


def sweep(tmp_path, runtime, who, tried):
    with Injected(tmp_path, runtime) as server:
        return Sweep(server, who, tried).run()


@pytest.mark.parametrize("who", ["new:1", "new:2", "new:3", "warden", "front"])
def test_exec_path(tmp_path, who, tried):
    assert sweep(tmp_path, COLD, who, tried) > 5


# The next jail, `new:1` and `new:2`, is parked once the job has ended.
@pytest.mark.parametrize("who", ["template", "init", "parked", "new:1", "new:2", "warden"])
def test_template_path(tmp_path, who, tried):
    assert sweep(tmp_path, WARM, who, tried) > 3
