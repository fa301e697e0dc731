import gc


class Node:
    count = 0

    def __init__(self):
        self.me = self

    def __del__(self):
        Node.count += 1


for number in range(2000):
    Node()
print(Node.count > 0, gc.isenabled())
gc.collect()
print(Node.count)
