def generator():
    try:
        yield 1
    finally:
        print("closed")


async def coroutine():
    pass


g = generator()
next(g)
c = coroutine()
print("end")
