import sys
import _testcapi
_testcapi.fatal_error(b"on purpose", False)
