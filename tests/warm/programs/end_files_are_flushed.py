import atexit
import os
unclosed = open("global.txt", "w")
unclosed.write("global\n")


def keep():
    inner = open("cycle.txt", "w")
    inner.write("cycle\n")
    cycle = [inner]
    cycle.append(cycle)


keep()
if os.fork() == 0:
    unclosed.write("child\n")
else:
    os.wait()
    atexit.register(lambda: os.system("cat global.txt cycle.txt"))
