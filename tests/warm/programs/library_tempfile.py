import os
import tempfile
with tempfile.TemporaryDirectory() as directory:
    print(os.path.isdir(directory))
    with tempfile.NamedTemporaryFile("w+", dir=directory) as file:
        file.write("text")
        file.seek(0)
        print(file.read(), os.path.exists(file.name))
print(os.path.exists(directory), tempfile.gettempdir(), tempfile.mktemp() != tempfile.mktemp())
leftover = tempfile.TemporaryDirectory()
