import sys
import textwrap
first = textwrap
del sys.modules["textwrap"]
import textwrap
print(first is textwrap, textwrap.dedent("  x"))
