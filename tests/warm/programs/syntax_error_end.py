print("never")
def f(:
    pass
