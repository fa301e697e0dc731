import threading
threading.stack_size(64 * 1024)
thread = threading.Thread(target=print, args=("small stack",))
thread.start()
thread.join()
