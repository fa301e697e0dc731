#: args ["--help"]
import argparse
parser = argparse.ArgumentParser(description="An example.", epilog="The end.")
parser.add_argument("--count", type=int, default=1, help="how many (default: %(default)s)")
parser.add_argument("name", nargs="*")
parser.parse_args()
