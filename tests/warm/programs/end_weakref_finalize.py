import weakref


class Thing:
    pass


thing, other, cycle = Thing(), Thing(), Thing()
cycle.me = cycle
weakref.finalize(thing, print, "thing")
weakref.finalize(other, print, "other")
no_exit = weakref.finalize(cycle, print, "never")
no_exit.atexit = False
del other
print("end")
