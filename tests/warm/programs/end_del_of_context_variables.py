import contextvars
import os


class Noisy:
    def __del__(self, write=os.write):
        write(1, b"gone\n")


variable = contextvars.ContextVar("variable")
variable.set(Noisy())
print("end", flush=True)
