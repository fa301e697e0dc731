import asyncio


async def work(n):
    await asyncio.sleep(0.05 * (3 - n))
    return n * n


async def main():
    print(await asyncio.gather(*(work(n) for n in range(3))))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(n)) for n in range(2)]
    print([task.result() for task in tasks])
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
    except TimeoutError:
        print("timeout")
    return "returned"


print(asyncio.run(main()))
