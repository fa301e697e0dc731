import os

words = input().split()
print("the directory has", os.listdir())
with open("words.txt", "w") as result:
    print(len(words), "words", file=result)
