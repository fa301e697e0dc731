import os
import stat
import sys
s = sys.stdin
print(s.encoding, s.errors, s.newlines, s.line_buffering, s.isatty(), s.seekable(), s.readable(), s.writable(), s.name, s.mode)
print(s.buffer.raw.closefd, s.buffer.raw.mode, s.fileno(), stat.S_ISFIFO(os.fstat(0).st_mode), os.get_inheritable(0))
s.seek(0)
