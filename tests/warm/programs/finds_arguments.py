#: args ["one", "two words", "", "--flag=x", "gr\u00fcn"]
import sys
print(sys.argv[1:], sys.orig_argv[1:2], len(sys.orig_argv), sys.orig_argv[-1])
