"""The least that a jailed Python program costs on this machine: the same interpreter, with the same modules imported, forked into the same
seven namespaces, running the same script, and nothing else. No policy, no limits, no filter, no root, no server, and no second process
that would answer for the first. Whoever starts programs by a fork of a warm interpreter can come near to it.

WORKERS processes do that again and again, for MILLISECONDS. Prints jobs per second.

usage: floor.py WORKERS MILLISECONDS SCRIPT MODULE..."""

import ctypes
import gc
import importlib
import os
import signal
import sys
import time

NR_CLONE3 = 435  # on every machine
# CLONE_NEW: TIME is not among them, USER, NS, PID, NET, IPC, UTS, CGROUP are.
NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000
# A struct clone_args of the first version: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
CLONE_ARGS = (ctypes.c_uint64 * 8)(NAMESPACES, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
# PyDLL: the interpreter's lock is held meanwhile, so the child has it.
SYSCALL = ctypes.PyDLL(None, use_errno=True).syscall
SYSCALL.restype = ctypes.c_long


def fork_into_namespaces():
    pid = SYSCALL(ctypes.c_long(NR_CLONE3), CLONE_ARGS, ctypes.c_size_t(ctypes.sizeof(CLONE_ARGS)))
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return pid


def run_script(text, output):
    """In a process of its own."""
    try:
        os.dup2(output, 1)
        exec(compile(text, "main.py", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    finally:
        os._exit(1)


def one_job(text):
    ours, theirs = os.pipe()
    pid = fork_into_namespaces()
    if pid == 0:
        run_script(text, theirs)
    os.close(theirs)
    said = b""
    while part := os.read(ours, 65536):
        said += part
    os.close(ours)
    if os.waitpid(pid, 0)[1] != 0 or not said:
        raise SystemExit("floor.py: a job failed")


def work(text, milliseconds, results):
    jobs, start = 0, time.monotonic()
    while time.monotonic() - start < milliseconds / 1000:
        one_job(text)
        jobs += 1
    os.write(results, f"{jobs / (time.monotonic() - start)}\n".encode())


def main(workers, milliseconds, script, *modules):
    for module in modules:
        importlib.import_module(module)
    with open(script) as file:
        text = file.read()
    one_job(text)
    gc.collect()
    gc.freeze()
    ours, theirs = os.pipe()
    pids = []
    for _ in range(int(workers)):
        pid = os.fork()
        if pid == 0:
            work(text, int(milliseconds), theirs)
            os._exit(0)
        pids.append(pid)
    os.close(theirs)
    if any([os.waitpid(pid, 0)[1] for pid in pids]):
        raise SystemExit("floor.py: a worker failed")
    with open(ours) as file:
        print(sum(map(float, file)))


if __name__ == "__main__":
    main(*sys.argv[1:])
