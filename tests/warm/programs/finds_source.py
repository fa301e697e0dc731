import inspect
import linecache


def documented(a, b=1):
    """Says so."""
    return a + b  # with a comment


print(inspect.getsource(documented), inspect.signature(documented), inspect.getdoc(documented), inspect.getsourcelines(documented)[1])
print(linecache.getline(__file__, 2), inspect.getfile(documented) == __file__, inspect.getmodule(documented).__name__)
