import sys
print(sys.get_int_max_str_digits())
print(len(str(10 ** 4000)))
str(10 ** 5000)
