import locale
print(locale.setlocale(locale.LC_ALL, ""))
print(f"{1234567.891:n}", locale.strcoll("a", "B") > 0)
try:
    locale.setlocale(locale.LC_ALL, "xx_XX")
except locale.Error as error:
    print(error)
