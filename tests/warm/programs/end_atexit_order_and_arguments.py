import atexit
atexit.register(print, "first registered")
atexit.register(print, "second", "registered", sep="-")
twice = atexit.register(print, "unregistered")
atexit.unregister(print) if False else None


@atexit.register
def registers_more():
    atexit.register(print, "from inside")
    print("decorated")
