import asyncio


async def fail():
    raise ValueError("in a task")


async def main():
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await task


asyncio.run(main())
