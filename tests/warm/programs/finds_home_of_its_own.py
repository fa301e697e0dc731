#: env {"HOME": "/somewhere"}
#: fresh
import os
import site
print(os.path.expanduser("~/x"), site.getuserbase())
