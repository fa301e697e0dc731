import os
import signal
print(os.getpid() == int(os.readlink("/proc/self")), os.getpid() != os.getppid(), os.nice(0), signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(open("/proc/self/comm").read())
print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
