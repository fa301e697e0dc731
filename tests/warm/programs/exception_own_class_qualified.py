class Outer:
    class Failure(Exception):
        pass


raise Outer.Failure("inside")
