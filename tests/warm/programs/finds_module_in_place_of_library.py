#: files {"statistics.py": "mean = 'not the library'\n"}
#: fresh
import statistics
print(statistics.mean)
