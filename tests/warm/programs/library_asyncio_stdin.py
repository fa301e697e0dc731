#: stdin "one\ntwo\n"
import asyncio
import sys


async def main():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        print(line)


asyncio.run(main())
