class Node:
    def __init__(self, name):
        self.name, self.other = name, None

    def __del__(self):
        print("gone", self.name)


first, second = Node("first"), Node("second")
first.other, second.other = second, first
lonely = Node("lonely")
lonely.other = lonely
del lonely
print("end")
