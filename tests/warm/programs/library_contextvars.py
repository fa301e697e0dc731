import contextvars
variable = contextvars.ContextVar("variable", default="default")
print(variable.get(), len(contextvars.copy_context()))
token = variable.set("set")
context = contextvars.copy_context()
variable.reset(token)
print(variable.get(), context[variable], context.run(variable.get))
