import atexit
import logging
import logging.handlers
atexit.register(lambda: print(open("log.txt").read()))
target = logging.FileHandler("log.txt")
memory = logging.handlers.MemoryHandler(100, target=target)
logging.getLogger().addHandler(memory)
logging.error("kept in memory until the end")
