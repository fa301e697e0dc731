import sys
import warnings
print(warnings.filters == [], len(warnings.filters), warnings.filters)
print(warnings.defaultaction, warnings.onceregistry)
