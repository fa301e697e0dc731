try:
    {}["missing"]
except KeyError:
    raise LookupError("nothing there") from None
