class Noisy:
    def __del__(self):
        raise ValueError("in __del__")


Noisy()
print("after")
