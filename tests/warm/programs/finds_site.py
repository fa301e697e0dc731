import site
import sys
print(site.ENABLE_USER_SITE, site.PREFIXES, type(exit), type(copyright), type(help), repr(credits)[:20], repr(exit))
print(site.getsitepackages(), hasattr(sys, "__interactivehook__"))
print(copyright)
