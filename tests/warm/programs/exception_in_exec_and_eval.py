try:
    eval("1 +")
except SyntaxError as error:
    print(error.msg, error.lineno, error.offset, error.text)
exec("def f():\n    return missing\nf()")
