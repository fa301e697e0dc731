import multiprocessing
import os
import sys


def leave(how):
    if how == "exit":
        sys.exit(3)
    if how == "kill":
        os.kill(os.getpid(), 9)
    raise ValueError(how)


for how in ("exit", "kill"):
    process = multiprocessing.Process(target=leave, args=(how,))
    process.start()
    process.join()
    print(how, process.exitcode)
