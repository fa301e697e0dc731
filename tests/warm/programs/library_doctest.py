"""
>>> add(1, 2)
3
>>> add(1, "x")
Traceback (most recent call last):
    ...
TypeError: unsupported operand type(s) for +: 'int' and 'str'
>>> add(2, 2)
5
"""


def add(a, b):
    return a + b


import doctest
import sys
sys.exit(doctest.testmod().failed)
