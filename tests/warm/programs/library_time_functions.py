import time
started = time.monotonic()
time.sleep(0.02)
print(0.02 <= time.monotonic() - started < 5, time.time() > 1.6e9, time.perf_counter_ns() > 0)
print(time.gmtime(0), time.strftime("%A %j", time.gmtime(0)), time.strptime("2024", "%Y").tm_year)
