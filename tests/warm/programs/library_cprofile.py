import cProfile
import io
import pstats
profile = cProfile.Profile()
profile.runcall(sorted, range(10))
out = io.StringIO()
pstats.Stats(profile, stream=out).strip_dirs().print_stats()
print("sorted" in out.getvalue())
