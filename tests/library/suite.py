"""Runs in a jail: tests of CPython's own, named as arguments; says of each what came of it, one line each, as soon as it is known."""

import os
import sys
import unittest

TELL = os.dup(1)


class Result(unittest.TestResult):
    def tell(self, test, outcome):
        os.write(TELL, f"= {outcome} {test.id() if hasattr(test, 'id') else test}\n".encode())

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addError(self, test, error):
        super().addError(test, error)
        self.tell(test, "failed")
        os.write(TELL, self.errors[-1][1].encode() if "VERBOSE" in os.environ else b"")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.tell(test, "failed")
        os.write(TELL, self.failures[-1][1].encode() if "VERBOSE" in os.environ else b"")

    def addSkip(self, test, reason):
        self.tell(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.tell(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "failed")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.tell(test, "failed")


def main():
    from test import support
    support.use_resources = []  # no network, nothing that is large or takes long
    support.verbose = 0
    for name in sys.argv[1:]:
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(name)
        except unittest.SkipTest:
            os.write(TELL, f"= skipped {name}\n".encode())
            continue
        suite.run(Result())


if __name__ == "__main__":
    main()
    os.write(TELL, b"= end\n")
    os._exit(0)
