import asyncio


async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate(b"through a child\n")
    print(out, process.returncode)


asyncio.run(main())
