# What hardly any program does without. A template looks where it writes before it looks at job.py (pages.c).
print(1)
