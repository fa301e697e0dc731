import warnings
warnings.warn("default: shown")
warnings.warn("deprecated: shown in main", DeprecationWarning)
warnings.warn("pending: ignored", PendingDeprecationWarning)
for _ in range(2):
    warnings.warn("once per place")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("recorded", ResourceWarning)
print(len(caught), caught[0].category.__name__)
warnings.simplefilter("error")
warnings.warn("becomes an error")
