import time
print(time.tzname, time.timezone, time.localtime(0).tm_hour, time.get_clock_info("monotonic").implementation)
