# What programs usually do, done in a template . Imports nothing that is not there, leaves nothing behind.
import io
import os
import sys


def there(*names):
    return all(name in sys.modules for name in names)


class Example:
    kind = "example"

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Example({self.value!r})"

    @property
    def double(self):
        return self.value * 2


def language(out):
    numbers = [n * n for n in range(10) if n % 2]
    words = {word: len(word) for word in "the quick brown fox".split()}
    total, example = 0, Example(1)
    for position, (word, length) in enumerate(sorted(words.items(), key=lambda item: item[1])):
        total += length + numbers[position] + example.double
    print(f"{total:>8} {total / 3:.2f} {word!s}", "%s and %d" % ("text", total), "{} {:x}".format(word, total), file=out)
    print(numbers, words, {1, 2}, (3.5, None, True), b"bytes", example, sep=", ", end="\n", file=out, flush=True)
    try:
        [][1]
    except IndexError as error:
        print(error, file=out)
    with io.StringIO() as text:
        text.write("x" * 10)
    return sum(numbers), max(words), "-".join(map(str, numbers)), any(numbers), list(zip(numbers, reversed(numbers)))


def use_json(json):
    text = json.dumps({"a": [1, 2.5, "x", None, True], "b": {"c": []}})
    json.dumps(json.loads(text), indent=2, sort_keys=True)


def use_re(re):
    pattern = re.compile(r"(?P<word>\w+)[ ,]+(\d{2,}|[a-z]*?)(?:$|\s)", re.IGNORECASE)
    pattern.sub(r"\g<word>", "one 22 two three")
    re.findall(r"[A-Z]+\b", "AB cd EF"), re.split(r"\s*;\s*", "a ; b"), re.match("^a.c$", "abc").group()
    re.purge()


def use_collections(collections):
    counter = collections.Counter("hello world")
    counter.most_common(2)
    groups = collections.defaultdict(list)
    groups["a"].append(1)
    collections.deque([1, 2], maxlen=3).append(3)
    collections.OrderedDict(a=1)
    collections.namedtuple("Point", "x y")(1, 2)


def use_statistics(statistics):
    values = [1, 2, 3.5, 4]
    statistics.mean([1, 2, 3]), statistics.mean(values), statistics.median(values), statistics.stdev(values)


def use_random(random):
    generator = random.Random(1)
    generator.random(), generator.randint(1, 6), generator.choice("abc"), generator.shuffle([1, 2, 3])


def use_datetime(datetime):
    moment = datetime.datetime(2024, 2, 29, 12, 30) + datetime.timedelta(days=1, hours=2)
    moment.isoformat(), moment.strftime("%Y-%m-%d"), str(moment.date()), datetime.datetime.fromisoformat("2024-01-01")


def use_itertools(itertools):
    list(itertools.chain([1], itertools.islice(itertools.count(), 3), itertools.permutations("ab")))
    [(key, list(group)) for key, group in itertools.groupby("aab")]


def use_functools(functools):
    functools.reduce(lambda a, b: a + b, [1, 2], 0)
    functools.partial(int, base=2)("10")

    @functools.lru_cache(maxsize=None)
    def cached(n):
        return n

    @functools.wraps(cached)
    def wrapped():
        return cached(1)

    wrapped()


def use_math(math):
    math.sqrt(2), math.floor(1.5), math.gcd(4, 6), math.pi, math.factorial(5)


def use_hashlib(hashlib):
    hashlib.sha256(b"x").hexdigest(), hashlib.md5(b"x", usedforsecurity=False).digest()


def use_dataclasses(dataclasses):
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 0

    repr(Point(1)), Point(1) == Point(2), dataclasses.asdict(Point(1))


def use_decimal(decimal):
    with decimal.localcontext():
        str(decimal.Decimal("1.10") + decimal.Decimal(2))


USES = {name[4:]: use for name, use in globals().items() if name.startswith("use_")}

before = dict(sys.modules)
reader, writer = os.pipe()
with open(reader, "rb", buffering=0), open(writer, "w", encoding="utf-8") as out:
    language(out)
for name, use in USES.items():
    if there(name):
        use(sys.modules[name])
for name in sys.modules.keys() - before.keys():
    del sys.modules[name]
