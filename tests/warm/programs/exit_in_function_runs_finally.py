import sys


def leave():
    try:
        sys.exit(3)
    finally:
        print("finally")


leave()
