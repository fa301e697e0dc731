import unittest
unittest.makeSuite
import string
import asyncio
asyncio.get_event_loop_policy()
"abc".encode("ascii", "strict")
import locale
locale.getdefaultlocale()
