import faulthandler
import sys
faulthandler.dump_traceback(file=sys.stdout, all_threads=False)


def inner():
    faulthandler.dump_traceback(file=sys.stdout, all_threads=False)


inner()
