import os
import threading


class Noisy:
    def __del__(self, write=os.write):
        write(1, b"gone\n")


local = threading.local()
local.kept = Noisy()
print("end", flush=True)
