#: env {"TZ": "America/New_York"}
import datetime
import time
print(time.tzname, time.timezone, time.daylight, time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(0)))
print(datetime.datetime.fromtimestamp(1700000000).isoformat(), datetime.datetime.fromtimestamp(0).astimezone().tzinfo)
print(time.strptime("30 Nov 00", "%d %b %y").tm_isdst, time.mktime((2024, 7, 1, 0, 0, 0, 0, 0, -1)))
