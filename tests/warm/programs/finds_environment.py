#: env {"B": "2", "A": "1", "EMPTY": "", "EQUALS": "a=b=c", "UMLAUT": "\u00fc"}
import os
print(dict(os.environ))
print(list(os.environb.items())[-1], os.getenv("A"), "NOPE" in os.environ)
os.environ["NEW"] = "new"
del os.environ["A"]
os.system("echo $NEW $A $B; env | sort | grep -c .")
print(os.popen("echo popen $NEW").read())
