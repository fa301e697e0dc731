import weakref


class Thing:
    pass


def gone(_):
    raise ValueError("callback")


thing = Thing()
reference = weakref.ref(thing, gone)
del thing
print("after")
