class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name)


a, b, _c, __d = map(Noisy, ["a", "b", "_c", "__d"])
print("end")
