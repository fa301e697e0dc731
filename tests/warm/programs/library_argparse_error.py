#: args ["--count", "x"]
import argparse
parser = argparse.ArgumentParser(description="An example.")
parser.add_argument("--count", type=int, default=1, help="how many")
parser.add_argument("name")
parser.parse_args()
