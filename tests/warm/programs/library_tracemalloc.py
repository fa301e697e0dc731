import tracemalloc
tracemalloc.start(5)
kept = [bytes(1000) for _ in range(100)]
current, peak = tracemalloc.get_traced_memory()
print(current >= 100000, tracemalloc.get_object_traceback(kept[0])[0].lineno, tracemalloc.is_tracing())
tracemalloc.stop()
