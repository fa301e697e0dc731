import asyncio
import os
import signal


async def main():
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
    try:
        await asyncio.sleep(5)
    finally:
        print("cancelled")


asyncio.run(main())
