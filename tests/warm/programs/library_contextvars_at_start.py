import contextvars
print(len(contextvars.copy_context()))
