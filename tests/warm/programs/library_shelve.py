import shelve
with shelve.open("shelf") as shelf:
    shelf["key"] = [1, {"a": 2}]
with shelve.open("shelf") as shelf:
    print(dict(shelf))
