import resource
import sys
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.getallocatedblocks() > 0)
print([resource.getrlimit(limit) for limit in (resource.RLIMIT_STACK, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS)])
print(sys.gettrace(), sys.getprofile(), sys.is_finalizing(), sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth())
