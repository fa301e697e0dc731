import _thread
import threading
main = threading.main_thread()
print(len(threading.enumerate()), main.name, main.daemon, main.ident == threading.get_ident(), main.native_id == threading.get_native_id())
print(threading.current_thread() is main, threading.active_count(), _thread._count(), threading.stack_size())
