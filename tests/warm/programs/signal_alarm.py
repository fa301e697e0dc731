import signal


def handler(number, frame):
    raise TimeoutError("alarm")


signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    signal.pause()
except TimeoutError as error:
    print(error)
