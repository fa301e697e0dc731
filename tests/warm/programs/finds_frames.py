import inspect
import sys
print(len(inspect.stack()), inspect.stack()[0].function, inspect.stack()[0].lineno, inspect.stack()[0].code_context)
frame = sys._getframe()
print(frame.f_back, frame.f_lineno, frame.f_code.co_name, frame.f_code.co_filename == __file__, frame.f_globals is globals())


def depth():
    return len(inspect.stack())


print(depth())
