import sys
import threading


def work():
    while True:
        sum(range(1000))


threading.Thread(target=work, daemon=True).start()
print("x" * 1000)
