import gc
gc.disable()


class Node:
    def __del__(self):
        print("collected")


node = Node()
node.me = node
del node
print("end")
