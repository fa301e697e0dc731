import threading


def hook(arguments):
    print("thread hook", arguments.exc_type.__name__, arguments.thread.name)


threading.excepthook = hook
thread = threading.Thread(target=lambda: 1 / 0, name="t")
thread.start()
thread.join()
