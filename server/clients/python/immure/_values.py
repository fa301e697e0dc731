"""Values that cross to a module and back: JSON as it is, and what JSON does not have as an object with `$type`."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from typing import Any, Callable

LEVELS_MAX = 200
EXACT_MAX = 2**53 - 1
DIGITS_AT_ONCE = 4000  # Python converts no more than 4300
NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}


class SerializationError(TypeError):
    """A value that cannot cross."""


class Undefined:
    """The one value that JavaScript has beside null."""

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


class BigInt(int):
    """A bigint; other whole numbers are numbers as far as these are exact."""


class Map(list):
    """[(key, value), …]: keys may be anything."""


class Set(list):
    """Its elements may be anything."""


class Bytes(bytes):
    """Bytes that another constructor than Uint8Array has made."""

    ctor: str

    def __new__(cls, data: bytes, ctor: str) -> Bytes:
        made = super().__new__(cls, data)
        made.ctor = ctor
        return made


class Functions:
    """What the caller gives to a run, by the ids that it travels under. Only what a run was given at its start is ever called."""

    def __init__(self) -> None:
        self.by_id: dict[str, Callable[..., Any]] = {}
        self.ids: dict[int, str] = {}
        self.sealed = False

    def id(self, function: Callable[..., Any]) -> str | None:
        known = self.ids.get(id(function))
        if known or self.sealed:
            return known
        made = f"f{len(self.by_id)}"
        self.by_id[made], self.ids[id(function)] = function, made
        return made


def _number(value: float) -> Any:
    if math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0):
        return value
    name = "NaN" if math.isnan(value) else "-0" if value == 0 else "Infinity" if value > 0 else "-Infinity"
    return {"$type": "number", "value": name}


def _date(value: datetime.datetime) -> str:
    value = value.astimezone(datetime.timezone.utc) if value.tzinfo else value
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"


def encode(value: Any, functions: Functions | None = None, path: str = "value", above: tuple[int, ...] = ()) -> Any:
    """`functions` None: there may be none in `value`. A datetime without a zone is UTC."""
    def inner(item: Any, key: Any) -> Any:
        return encode(item, functions, f"{path}.{key}", (*above, id(value)))

    if value is None or isinstance(value, (bool, str)):
        return value
    if value is UNDEFINED:
        return {"$type": "undefined"}
    if isinstance(value, int):
        big = isinstance(value, BigInt) or abs(value) > EXACT_MAX
        return {"$type": "bigint", "value": str(decimal.Decimal(value))} if big else value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return {"$type": "date", "value": _date(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$type": "bytes", "ctor": getattr(value, "ctor", "Uint8Array"), "data": base64.b64encode(value).decode()}
    if callable(value):
        name = functions.id(value) if functions else None
        if name is None:
            raise SerializationError(f"{path}: a function cannot cross here")
        return {"$type": "function", "id": name}
    if id(value) in above:
        raise SerializationError(f"{path}: refers to itself")
    if len(above) >= LEVELS_MAX:
        raise SerializationError(f"{path}: has more than {LEVELS_MAX} levels")
    if isinstance(value, Map) or (isinstance(value, dict) and not all(isinstance(key, str) for key in value)):
        pairs = value.items() if isinstance(value, dict) else value
        return {"$type": "map", "entries": [[inner(key, "key"), inner(item, "value")] for key, item in pairs]}
    if isinstance(value, (Set, set, frozenset)):
        return {"$type": "set", "values": [inner(item, i) for i, item in enumerate(value)]}
    if isinstance(value, (list, tuple)):
        return [inner(item, i) for i, item in enumerate(value)]
    if isinstance(value, dict):
        encoded = {key: inner(item, key) for key, item in value.items()}
        return {"$type": "object", "entries": [list(pair) for pair in encoded.items()]} if "$type" in value else encoded
    raise SerializationError(f"{path}: a {type(value).__name__} cannot cross")


def _decode_bigint(digits: str) -> int:
    if len(digits) <= DIGITS_AT_ONCE:
        return int(digits)
    sign, low = -1 if digits[0] == "-" else 1, len(digits) // 2
    return _decode_bigint(digits[:-low]) * 10**low + sign * _decode_bigint(digits[-low:])


def _decode_date(value: Any) -> Any:
    if value is None:
        return math.nan
    try:
        return datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return value  # no year of Python's


def _decode_bytes(value: dict[str, Any]) -> bytes:
    data = base64.b64decode(value["data"], validate=True)
    return data if value["ctor"] == "Uint8Array" else Bytes(data, value["ctor"])


DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "undefined": lambda _: UNDEFINED,
    "bigint": lambda value: BigInt(_decode_bigint(value["value"])),
    "number": lambda value: NUMBERS[value["value"]],
    "date": lambda value: _decode_date(value["value"]),
    "map": lambda value: Map((decode(key), decode(item)) for key, item in value["entries"]),
    "set": lambda value: Set(decode(item) for item in value["values"]),
    "bytes": _decode_bytes,
    "object": lambda value: {key: decode(item) for key, item in value["entries"]},
}


def decode(value: Any) -> Any:
    """An invalid date is NaN, one that no datetime holds is its text, a map a Map, a set a Set; dates are UTC."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$type" not in value:
        return {key: decode(item) for key, item in value.items()}
    if value["$type"] not in DECODERS:
        raise SerializationError(f"a value of the type {value['$type']} is not known")
    return DECODERS[value["$type"]](value)
