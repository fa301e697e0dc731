# What packages beside the library are used for, done in a template a few times. Imports none that is not there; the parts of packages
# that are imported by being used stay.
import io
import sys


def use_numpy(numpy):
    values = numpy.array([[1.0, 2.5], [3.0, 4.0]])
    values.mean(), values.std(axis=0), values @ values, values[values > 2], numpy.linspace(0, 1, 5), numpy.arange(6).reshape(2, 3)
    numpy.linalg.inv(values), numpy.random.default_rng(1).normal(size=3), str(values), repr(values)


def use_pandas(pandas):
    frame = pandas.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, 1.5, 2.5, 3.5], "c": list("xyxy")})
    frame["d"] = frame["a"] * frame["b"]
    str(frame.describe()), str(frame), repr(frame.head()), str(frame["a"].mean())
    frame.groupby("c").sum(), frame.sort_values("b"), frame[frame["a"] > 2], frame.merge(frame, on="a")
    pandas.read_csv(io.StringIO(frame.to_csv(index=False))), frame.to_dict("records")


def draw(pyplot):
    if pyplot.get_backend().lower() != "agg" or pyplot.get_fignums():
        return
    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 3], [2, 1, 4], label="line")
    axes.bar([1, 2], [1, 2])
    axes.set_title("title"), axes.set_xlabel("x"), axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)
    # It opens each font once, and closes what it has open in a fork, where it is open no more.
    getattr(sys.modules["matplotlib.font_manager"], "_get_font").cache_clear()


for name, use in ("numpy", use_numpy), ("pandas", use_pandas), ("matplotlib.pyplot", draw):
    if name in sys.modules:
        use(sys.modules[name])
