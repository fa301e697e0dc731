import warnings
warnings.simplefilter("always")


async def work():
    pass


work()
print("after")
