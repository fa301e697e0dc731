#: stdin "through the descriptor"
import os
text = b""
while chunk := os.read(0, 4):
    text += chunk
print(text)
