import enum
import typing


class Color(enum.Enum):
    RED = enum.auto()
    BLUE = "blue"


class Named(typing.NamedTuple):
    a: int
    b: str = "x"


class Likes(typing.Protocol):
    def like(self) -> bool: ...


print(Color.RED, list(Color), Color("blue"), Named(1), typing.get_type_hints(Named), typing.Optional[int])
T = typing.TypeVar("T")
print(typing.Generic[T], typing.get_args(dict[str, list[int]]))
Color("green")
