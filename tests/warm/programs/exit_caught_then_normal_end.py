try:
    raise SystemExit(3)
except SystemExit as error:
    print(error.code)
