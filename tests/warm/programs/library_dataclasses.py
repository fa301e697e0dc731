from dataclasses import dataclass, field, asdict, replace


@dataclass(order=True, slots=True)
class Point:
    x: int
    y: int = 0
    tags: list = field(default_factory=list)


print(Point(1), Point(1) < Point(2), asdict(Point(3)), replace(Point(1), y=5), Point.__match_args__)
Point()
