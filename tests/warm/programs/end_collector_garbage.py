import gc
gc.set_debug(gc.DEBUG_SAVEALL)


class Node:
    pass


node = Node()
node.me = node
del node
gc.collect()
print(len([thing for thing in gc.garbage if isinstance(thing, Node)]))
gc.set_debug(0)
gc.garbage.clear()
