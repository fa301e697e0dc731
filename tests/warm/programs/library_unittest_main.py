import unittest


class Test(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1, 1)

    def test_bad(self):
        self.assertEqual([1, 2], [1, 3])

    @unittest.skip("later")
    def test_skipped(self):
        pass


import time
time.perf_counter = lambda: 0
unittest.main(argv=["program"])
