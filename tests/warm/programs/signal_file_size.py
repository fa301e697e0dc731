import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with open("big", "wb", buffering=0) as file:
        print(file.write(b"x" * 1000))
        file.write(b"x")
except OSError as error:
    print(error)
