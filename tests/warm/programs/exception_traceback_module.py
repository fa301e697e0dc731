import sys
import traceback


def fail():
    return {}["x"]


try:
    fail()
except KeyError:
    traceback.print_exc()
    traceback.print_exc(file=sys.stdout, limit=1)
    print(traceback.format_exception(*sys.exc_info())[0])
    print(traceback.extract_tb(sys.exc_info()[2]))
traceback.print_stack(file=sys.stdout)
