import locale
import sys
print(sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.getpreferredencoding())
print(locale.getlocale(), locale.setlocale(locale.LC_ALL), locale.localeconv()["decimal_point"], locale.getencoding())
print(open(__file__).encoding, sys.flags.utf8_mode)
