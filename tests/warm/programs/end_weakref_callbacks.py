import weakref


class Thing:
    pass


thing = Thing()
reference = weakref.ref(thing, lambda _: print("callback"))
print("end")
