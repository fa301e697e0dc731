print("with a mark", __file__ is not None)
