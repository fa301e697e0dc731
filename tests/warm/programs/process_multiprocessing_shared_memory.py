from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=16)
block.buf[:3] = b"abc"
again = shared_memory.SharedMemory(name=block.name)
print(bytes(again.buf[:3]), again.size >= 16)
again.close()
block.close()
block.unlink()
