import threading
import time


def work():
    while True:
        time.sleep(0.001)


for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
print("main done")
