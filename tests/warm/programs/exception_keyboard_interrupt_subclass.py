class Mine(KeyboardInterrupt):
    pass


raise Mine("not the same")
