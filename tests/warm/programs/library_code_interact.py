#: stdin "1 + 1\nx = 5\nx\n"
import code
code.interact(local={"a": 1}, banner="begin", exitmsg="finish")
