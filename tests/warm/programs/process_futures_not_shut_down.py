import concurrent.futures
import time
pool = concurrent.futures.ThreadPoolExecutor(2)
pool.submit(lambda: (time.sleep(0.1), print("worked")))
print("main done")
