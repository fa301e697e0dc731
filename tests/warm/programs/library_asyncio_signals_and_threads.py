import asyncio
import os
import signal


async def main():
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, lambda: done.set_result("signal"))
    os.kill(os.getpid(), signal.SIGUSR1)
    print(await done, await asyncio.to_thread(sum, [1, 2, 3]))


asyncio.run(main())
