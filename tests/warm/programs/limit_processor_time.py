import resource
import signal
resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
signal.signal(signal.SIGXCPU, lambda *_: (print("time is up", flush=True), exit(7)))
while True:
    pass
