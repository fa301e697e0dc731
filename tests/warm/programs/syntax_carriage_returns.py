print("one")
if True:
    print("two")
