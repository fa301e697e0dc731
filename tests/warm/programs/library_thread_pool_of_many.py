import queue
import threading
work, results = queue.Queue(), []


def worker():
    while (item := work.get()) is not None:
        results.append(item * 2)


threads = [threading.Thread(target=worker) for _ in range(8)]
for thread in threads:
    thread.start()
for n in range(100):
    work.put(n)
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
print(sorted(results) == [n * 2 for n in range(100)], threading.active_count())
