import threading


class Noisy:
    def __del__(self):
        print("gone with the thread")


started = threading.Event()


def work():
    kept = Noisy()
    started.set()
    threading.Event().wait()


threading.Thread(target=work, daemon=True).start()
started.wait()
print("end")
