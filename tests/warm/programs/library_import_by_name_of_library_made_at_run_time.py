import pathlib
pathlib.Path("fractions.py").write_text("Fraction = 'made'\n")
import fractions
print(fractions.Fraction)
