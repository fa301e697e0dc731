class Broken(Exception):
    def __str__(self):
        raise RuntimeError("no string")


raise Broken()
