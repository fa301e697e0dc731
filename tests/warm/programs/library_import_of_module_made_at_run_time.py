import importlib
import pathlib
pathlib.Path("made_now.py").write_text("value = 'made'\n")
importlib.invalidate_caches()
import made_now
print(made_now.value)
