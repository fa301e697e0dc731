import sys
seen = []


def hook(event, arguments):
    if event in ("mine", "os.system"):
        print("audit", event, arguments)


sys.addaudithook(hook)
sys.audit("mine", 1, "two")
import os
os.system("true")
