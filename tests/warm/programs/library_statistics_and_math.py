import fractions
import math
import statistics
print(statistics.mean([1, 2, 3, 4]), statistics.stdev([1.5, 2.5, 4]), statistics.quantiles(range(10)), math.comb(10, 3))
print(fractions.Fraction("0.125"), math.isclose(0.1 + 0.2, 0.3), math.inf, 0.1 + 0.2, round(2.675, 2), 10 ** 25, 1e16)
statistics.mean([])
