import os
import time
print(time.process_time() < 1, time.thread_time() < 1, sum(os.times()[:2]) < 1, os.times()[2:4])
