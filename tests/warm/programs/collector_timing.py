class Node:
    gone = []

    def __init__(self, number):
        self.me, self.number = self, number

    def __del__(self):
        Node.gone.append(self.number)


for number in range(3000):
    Node(number)
print(len(Node.gone) // 700)
