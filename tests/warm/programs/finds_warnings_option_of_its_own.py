#: env {"PYTHONWARNINGS": "error"}
#: fresh
import warnings
warnings.warn("becomes an error")
