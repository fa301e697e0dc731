#: files {"data.txt": "content\n", "sub/inner.txt": "deep"}
import os
print(sorted(os.listdir()), os.path.basename(os.getcwd()), open("data.txt").read(), open("sub/inner.txt").read())
open("made", "w").write("x")
print(os.path.getsize("made"), oct(os.umask(0)))
