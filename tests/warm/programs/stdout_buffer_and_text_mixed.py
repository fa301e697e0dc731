import sys
print("text 1")
sys.stdout.buffer.write(b"bytes 1\n")
print("text 2", flush=True)
sys.stdout.buffer.write(b"bytes 2\n")
sys.stdout.buffer.raw.write(b"raw\n")
print("text 3")
