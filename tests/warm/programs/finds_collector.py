import gc
print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage, gc.callbacks)
print(gc.get_count()[1:], [row["collections"] for row in gc.get_stats()][2])
