try:
    {}["missing"]
except KeyError:
    [][0]
