import collections
import functools
import itertools
import operator


@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@functools.singledispatch
def kind(value):
    return "other"


@kind.register
def _(value: int):
    return "int"


print(fib(80), fib.cache_info(), kind(1), kind("x"), collections.Counter("abracadabra").most_common(2))
print(list(itertools.accumulate([1, 2, 3], operator.mul)), collections.ChainMap({"a": 1}, {"b": 2})["b"])
print(functools.reduce(operator.add, [[1], [2]]), collections.namedtuple("P", "x y")(1, 2))
