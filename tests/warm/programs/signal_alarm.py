import signal


def handler(number, frame):
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise TimeoutError("alarm")


signal.signal(signal.SIGALRM, handler)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)  # again, where it comes before the pause
    signal.pause()
except TimeoutError as error:
    print(error)
