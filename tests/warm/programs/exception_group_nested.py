def fail(kind, text):
    try:
        raise kind(text)
    except kind as error:
        return error


raise ExceptionGroup("outer", [fail(ValueError, "one"), ExceptionGroup("inner", [fail(TypeError, "two"), OSError(2, "three")])])
