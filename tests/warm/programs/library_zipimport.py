import sys
import zipfile
with zipfile.ZipFile("archive.zip", "w") as archive:
    archive.writestr("zipped.py", "value = 'from an archive'\ndef fail(): raise ValueError(value)\n")
sys.path.insert(0, "archive.zip")
import zipped
print(zipped.value, zipped.__loader__.__class__.__name__, zipped.__file__)
zipped.fail()
