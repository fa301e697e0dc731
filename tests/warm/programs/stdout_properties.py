import os
import sys
for s in (sys.stdout, sys.stderr):
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.seekable(), s.newlines, s.closed)
    print(type(s.buffer).__name__, s.buffer.raw.name, s.buffer.raw.closefd, s.buffer.raw._blksize, s.fileno(), os.get_inheritable(s.fileno()))
print(sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
