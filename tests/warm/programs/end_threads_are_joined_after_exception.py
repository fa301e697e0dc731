import threading


def work():
    threading.main_thread().join()  # which is over when the interpreter begins to end
    print("thread done")


threading.Thread(target=work).start()
raise ValueError("main fails")
