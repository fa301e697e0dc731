"""What `make bench` measures. Each function takes a Bench and adds rows (report.py says what a row is) and notes to its report."""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bundle import ONLY_CGROUP2, Bundle
from callback_server import QuickServer
from harness import ROOT, Server, shipped_policy, wait_for
from harness import TOOLS as TEST_TOOLS

PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
TRUE = ["/bin/true"]
BWRAP = ["--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"]
UNSHARE = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--cgroup"]

WORKLOADS = {
    "print": "print(1)",
    "stdlib": """import collections, json, math, re, statistics
words = re.findall(r"[a-z]+", "the quick brown fox jumps over the lazy dog while the cat sleeps")
counts = collections.Counter(words)
lengths = json.loads(json.dumps({word: len(word) for word in counts}))
print(counts.most_common(1), round(statistics.mean(lengths.values()), 3), math.isqrt(len(words)))
""",
}
# What programs do with packages, and with which imported ahead.
PACKAGE_WORKLOADS = {
    "pandas": """import numpy, pandas
print(pandas.DataFrame({"a": numpy.arange(100), "b": numpy.arange(100) * 0.5}).describe())
""",
    "png": """import io
import matplotlib.pyplot as pyplot
pyplot.plot([1, 2, 3, 4], [1, 4, 9, 16])
pyplot.title("squares")
file = io.BytesIO()
pyplot.savefig(file, format="png")
print(len(file.getvalue()) > 1000)
""",
}
PACKAGES = ["numpy", "pandas", "matplotlib.pyplot"]
PACKAGE_RUNTIME = """
runtime {{
  name: "packages" interpreter: "python3" arg: "-s" extension: "py" policy: "python-data" template: "immure-python.so" warm_jails: {}
  python_environment: "{}" preload: [{}]
}}
"""
# What is started, bare or in a jail, and timed as a command.
PROGRAMS = {"true": TRUE, **{workload: [*PYTHON, code] for workload, code in WORKLOADS.items()}}
SLEEPER = "import time\nprint(time.clock_gettime(time.CLOCK_MONOTONIC), flush=True)\ntime.sleep({})"

# How a server starts its jobs: what is taken out of the shipped configuration.
WAYS = {"pool": None, "template": r"\s*warm_jails:.*", "off": r"\s*(warm_jails|template):.*"}

PAUSE_MS = 5
# A Node that stands ready takes long to be replaced, and whoever is timed meanwhile shares the processors with it.
NODE_PAUSE_MS = 200
# warm_jails of Python in the shipped configuration.
PARKED = 4
CLIENTS = (1, 2, 4, 16, 64)
# How often ours and the floor take turns, and with how many clients.
FLOOR_TURNS, FLOOR_CLIENTS = 5, (2, 4)
LAUNCHES = 20

# System calls in which somebody waits for somebody else.
WAITING = ("wait4", "waitid", "poll", "ppoll", "epoll_wait", "epoll_pwait", "futex", "pselect6", "rt_sigtimedwait", "pause")
# Where time is looked for in a profile, with all that is called from there: system calls, the kernel's functions behind the
# expensive ones, faults, the end of a process.
PLACES = (r"(?:__(?:x64|arm64)_sys_(\w+)|__do_sys_(\w+)|(?:asm_)?(copy_\w+_ns|copy_process|dup_mm|do_seccomp|bprm_execve|exc_page_fault|do_exit"
          r"|exit_mmap|mntput_no_expire|free_nsproxy)\b)")

# A tool, the Debian package that has it, and what is not measured without it.
TOOLS = {
    "bwrap": ("bubblewrap", "the comparison with bubblewrap"),
    "unshare": ("util-linux", "the comparison with unshare"),
    "crun": ("crun", "the comparison with crun"),
    "strace": ("strace", "the system calls of a launch"),
    "perf": ("linux-perf", "the profile of a launch"),
    "gnuplot": ("gnuplot-nox", "the plots"),
}


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def milliseconds(ns):
    return [value / 1e6 for value in ns]


class Bench:
    def __init__(self, options, build, report, measured=None):
        """`measured`: the build that is measured, if it is not the one whose stopwatch it is."""
        self.options, self.report = options, report
        measured = measured or build
        self.programs, self.immure = build / "tests/bench", str(measured / "immure")
        self.warm = any(measured.glob("immure-python*"))  # earlier ones had a program for one version
        # A build lies in its sources, whose configuration it knows; one that has been put elsewhere gets ours.
        its = measured.parent / "config/server.textproto"
        self.configuration = its if its.exists() else ROOT / "config/server.textproto"
        self.directory = build / "bench"
        self.cgroup = "REQUIRED" if subprocess.run([self.immure, "check"], capture_output=True).returncode == 0 else "BEST_EFFORT"
        self.run = [self.immure, "run", "--policy", "python", "--cgroup", self.cgroup.lower().replace("_", "-"), "--"]
        self.have = {tool for tool in TOOLS if shutil.which(tool)}
        floor = str(self.programs / "floor")
        self.floor = floor if self.works("floor", [floor, *TRUE]) else None
        if not self.warm:
            report.leave_out("the warm interpreter is not built (it needs libpython3-dev): no template, no pool")

    @contextlib.contextmanager
    def server(self, name, way, extra=""):
        """A server of our own that starts jobs this way, ready and with its stock of jails filled."""
        config = self.configuration.read_text()
        if WAYS[way]:
            config = re.sub(WAYS[way], "", config)
        path = self.directory / f"{name}.textproto"
        path.write_text(config + extra)
        with Server(self.directory / f"{name}.log", cgroup=self.cgroup, immure=self.immure,
                    SANDBOX_EXECUTOR_CONFIG=str(path)) as server:
            if way != "off":
                wait_for(lambda: "event=template_ready runtime=python" in server.log(), "the template")
            if way == "pool":
                wait_for(lambda: server.parked("python") == PARKED, "parked jails")
            yield server

    def best(self):
        return "pool" if self.warm else "off"

    def request(self, server, name, method="POST", target="/execute", **body):
        """The request as bytes on the wire, in a file, for the stopwatch to send."""
        text = json.dumps(body).encode() if body else b""
        head = (f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-Service-API-Key: {server.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n")
        path = self.directory / f"{name}.http"
        path.write_bytes(head.encode() + text)
        return str(path)

    def load(self, server, request, clients, jobs, duration_ms, *interval_ms):
        argv = [self.programs / "load", server.port, request, clients, jobs, duration_ms, *interval_ms]
        done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def works(self, tool, argv):
        """Does this way of starting a program work here?"""
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            self.report.leave_out(f"{tool} does not work here ({reason})")
        return done.returncode == 0


def launchers(bench, scratch):
    """name -> a function from the name of one of PROGRAMS to the command that runs it in somebody else's container, where that works."""
    table = {}
    for tool, words in (("bwrap", BWRAP), ("unshare", UNSHARE)):
        path = shutil.which(tool)
        if path and bench.works(tool, [path, *words, *TRUE]):
            table[tool] = lambda name, start=(path, *words): [*start, *PROGRAMS[name]]

    def crun(name):
        directory = scratch / f"crun-{name}"
        directory.mkdir()
        words = Bundle(directory).command(PROGRAMS[name])[len(ONLY_CGROUP2):]
        return [shutil.which(words[0]), *words[1:]]

    if "crun" in bench.have:
        commands = {name: crun(name) for name in PROGRAMS}
        if bench.works("crun", [*ONLY_CGROUP2, *commands["print"]]):
            table["crun"] = commands.get
    return table


def race_ready(bench, server):
    """Jailed code that is asked for against the same code bare, and nobody else: a turn of every other way in between leaves
    processors that were used for something else, and a jail's job is short enough to be told apart by that."""
    results = []
    for workload, code in WORKLOADS.items() if server else ():
        path = bench.request(server, f"{workload}-ready", code=code)
        results += race(bench, {f"{workload}.bare_ready": ["spawn", *PYTHON, code],
                                f"{workload}.post_ready": ["http", str(server.port), path]}, PAUSE_MS)
    return results


@contextlib.contextmanager
def package_server(bench, place, modules):
    names = ", ".join(f'"{name}"' for name in modules)
    with bench.server("packages", "pool", PACKAGE_RUNTIME.format(PARKED, place, names)) as server:
        wait_for(lambda: server.parked("packages") == PARKED, "parked jails with packages")
        yield server


def race_packages(bench, server, bare, workloads, suffix=""):
    for workload, code in workloads.items():
        name = f"{workload}{suffix}"
        path = bench.request(server, name, code=code, runtime="packages")
        yield from race(bench, {f"{name}.bare_ready": ["spawn", *bare, code], f"{name}.post_ready": ["http", str(server.port), path]},
                        PAUSE_MS)


def packages(bench):
    """A runtime with packages: what uses them, against a bare interpreter with the same; and what does not, against one without."""
    results = []
    bare = ["/usr/bin/python3", "-s", "-c"]
    if bench.warm and subprocess.run([*bare, f"import {', '.join(PACKAGES)}"], capture_output=True).returncode == 0:
        with package_server(bench, "debian", PACKAGES) as server:
            results += race_packages(bench, server, bare, PACKAGE_WORKLOADS)
            memory(bench, server.log(), "packages")
    else:
        bench.report.leave_out("packages (for which: apt-get install python3-numpy python3-pandas python3-matplotlib)")
    environment = TEST_TOOLS / "environment"
    if bench.warm and environment.exists():
        with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # a checkout may lie in /tmp, of which each job has its own
            os.chmod(name, 0o755)
            copy = shutil.copytree(environment, Path(name, "environment"), symlinks=True)
            with package_server(bench, copy, ["numpy"]) as server:
                results += race_packages(bench, server, PYTHON, WORKLOADS, "_numpy")
    else:
        bench.report.leave_out("numpy in a virtual environment (scripts/test --lane bench makes one)")
    for subject in results:
        bench.report.add(subject["label"], statistics.median(milliseconds(subject["ns"])), "ms", base_of(subject["label"]))


def race_node(bench, servers):
    """Jobs that stand ready against a bare Node; then those that are started for it, which keep a processor busy for as long."""
    node = shutil.which("node")
    results, subjects = [], {"node.bare": ["spawn", node, "-e", "0"]}
    for way in dict.fromkeys((bench.best(), "off")) if node else ():
        path = bench.request(servers[way], f"node-{way}", code="setResult(1)", runtime="node")
        subjects[f"node.post_{way}"] = ["http", str(servers[way].port), path]
        path = bench.request(servers[way], f"isolate-{way}", target="/run-code", source="export default 42")
        subjects[f"isolate.post_{way}"] = ["http", str(servers[way].port), path]
        results += race(bench, subjects, NODE_PAUSE_MS)
        subjects = {}
    return results


# How long so many calls of a function take, sixteen at a time; the run measures that itself.
CALLS = """export default async () => {
  const start = Date.now(); let left = 1000
  const caller = async () => { while (left-- > 0) await f(1) }
  await Promise.all(Array.from({length: 16}, caller))
  return Date.now() - start
}"""


# The same for a Python program that calls a tool again and again.
TOOL_CALLS = """import time
call_tool('f')
start = time.perf_counter()
for n in range(1000): call_tool('f', {'n': n})
set_result(time.perf_counter() - start)"""


def bridged_calls(bench):
    with QuickServer() as callbacks, bench.server("calls", bench.best(), f'callback {{ url: "{callbacks.url}" }}\n') as server:
        patient = {"callback_url": callbacks.url, "timeout_ms": 60000}
        replies = [server.execute(TOOL_CALLS, **patient) for _ in range(5)]
        bench.report.add("tools.calls", statistics.median(1000 / float(reply["output"]) for reply in replies), "calls/s")
        if not shutil.which("node"):
            return
        options = {"language": "javascript", "globals": {"f": {"$type": "function", "id": "f"}}}
        body = json.dumps({"source": CALLS, "options": options, **patient})
        replies = [server.request("POST", "/run-code", body).json for _ in range(5)]
        bench.report.add("isolate.calls", statistics.median(1000 * 1000 / reply["result"] for reply in replies), "calls/s")


def race(bench, subjects, pause_ms, prefix=()):
    """-> what tests/bench/bench.c says of each, taking turns"""
    argv = [*prefix, bench.programs / "bench", bench.options.rounds, 3, pause_ms]
    for label, words in subjects.items():
        argv += [":::", label, *words]
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, text=True, check=True) if subjects else None
    return json.loads(done.stdout)["subjects"] if done else []


def base_of(label):
    """The name of the bare interpreter's row that a row is compared with; None: it is one, or is compared with nothing."""
    group, _, way = label.partition(".")
    base = {"isolate": "node"}.get(group, group) + (".bare_ready" if way == "post_ready" else ".bare")
    return None if not way or way.startswith("bare") else base


def contest(bench, scratch):
    """Every way to start a program, taking turns."""
    ways = WAYS if bench.warm else ["off"]
    others = launchers(bench, scratch)
    with contextlib.ExitStack() as stack:
        servers = {way: stack.enter_context(bench.server(f"contest-{way}", way)) for way in ways}
        subjects = {"true.immure_version": ["spawn", bench.immure, "--version"]}
        for name, program in PROGRAMS.items():
            subjects[f"{name}.bare"] = ["spawn", *program]
            for other, command in others.items():
                subjects[f"{name}.{other}"] = ["spawn", *command(name)]
            subjects[f"{name}.immure_run"] = ["spawn", *bench.run, *program]
        for workload, code in WORKLOADS.items():
            for way, server in servers.items():
                path = bench.request(server, f"{workload}-{way}", code=code)
                subjects[f"{workload}.post_{way}"] = ["http", str(server.port), path]
        health = servers["off"]
        subjects["healthz"] = ["http", str(health.port), bench.request(health, "healthz", "GET", "/healthz")]
        # crun wants to see cgroup v2 alone; everybody gets the same.
        results = race(bench, subjects, PAUSE_MS, ONLY_CGROUP2 if "crun" in others else ())
        results += race_ready(bench, servers.get("pool"))
        results += race_node(bench, servers)
        logs = {way: server.log() for way, server in servers.items()}
    for subject in results:
        label, times = subject["label"], milliseconds(subject["ns"])
        bench.report.add(label, statistics.median(times), "ms", base_of(label))
    bench.report.add("true.immure_run_extra", bench.report.value("true.immure_run") - bench.report.value("true.bare"), "ms")
    for way, log in logs.items():
        bench.report.add(f"setup.{way}", audited_setup_ms(log), "ms", "setup.off" if way != "off" else None)
    if bench.warm:
        memory(bench, logs["pool"])


def audited_setup_ms(log):
    return statistics.median(float(ms) for ms in re.findall(r"event=audit .*\bsetup_ms=([0-9.]+)", log))


def memory(bench, log, runtime="python"):
    for what in ("private", "pss"):
        size = re.search(rf"event=template_ready runtime={runtime} .*parked_{what}_bytes=(\d+)", log)
        name = f"memory.parked_{what}" if runtime == "python" else f"memory.{runtime}_{what}"
        bench.report.add(name, int(size[1]) / 2**20, "MiB")


def latency(bench):
    """One client, one connection, one job after the other."""
    with bench.server("latency", bench.best()) as server:
        for workload, code in WORKLOADS.items():
            path = bench.request(server, f"latency-{workload}", code=code)
            bench.load(server, path, 1, 20, 10000)
            times = milliseconds(bench.load(server, path, 1, bench.options.jobs, 120000)["taken_ns"])
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
                bench.report.add(f"latency.{workload}.{name}", quantile(times, share), "ms",
                                 f"{workload}.bare" if name == "p50" else f"latency.{workload}.p50")


def xargs_rate(bench):
    """Jobs per second of the bare interpreter on two processors."""
    n = bench.options.xargs_jobs
    start = time.monotonic()
    subprocess.run(["xargs", "-P2", "-n1", *PYTHON, WORKLOADS["stdlib"]], input="\n".join(map(str, range(n))), text=True,
                   stdout=subprocess.DEVNULL, check=True)
    return n / (time.monotonic() - start)


def throughput(bench):
    """1 to 64 clients, and `xargs -P2` of the bare interpreter before each and after the last."""
    rates, results = [], {}
    with bench.server("throughput", bench.best(), f"max_concurrent_jobs: {max(CLIENTS)}\n") as server:
        path = bench.request(server, "throughput", code=WORKLOADS["stdlib"])
        for clients in CLIENTS:
            rates.append(xargs_rate(bench))
            results[clients] = bench.load(server, path, clients, 500000, bench.options.duration_ms)
        rates.append(xargs_rate(bench))
    bench.report.add("throughput.xargs", statistics.median(rates), "jobs/s")
    for clients, result in results.items():
        times = milliseconds(result["taken_ns"])
        bench.report.add(f"throughput.clients_{clients}", len(times) / result["seconds"], "jobs/s", "throughput.xargs")
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            bench.report.add(f"throughput.clients_{clients}.{name}", quantile(times, share), "ms",
                             f"throughput.clients_1.{name}" if clients > 1 else None)
        if result["refused"]:
            bench.report.note(f"{result['refused']} jobs of {clients} clients were refused.")


def python_floor_rate(bench, workers, script, modules):
    """Jobs per second where nothing is done but what their jails and their script need."""
    words = [*PYTHON[:-1], ROOT / "tests/bench/floor.py", workers, bench.options.duration_ms // 2, script, *modules]
    return float(subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True).stdout)


def floors(bench):
    """Ours against the least that there can be, by turns: so that what the machine does besides hits both alike."""
    bwrap = shutil.which("bwrap")
    subjects = {"floor.true": [bench.floor, *TRUE], "floor.immure_run": [*bench.run, *TRUE]} if bench.floor else {}
    if subjects and bwrap and bench.works("bwrap", [bwrap, *BWRAP, *TRUE]):
        subjects["floor.bwrap"] = [bwrap, *BWRAP, *TRUE]
    base = {"floor.immure_run": "floor.true", "floor.bwrap": "floor.immure_run"}
    for subject in race(bench, {label: ["spawn", *words] for label, words in subjects.items()}, PAUSE_MS):
        bench.report.add(subject["label"], statistics.median(milliseconds(subject["ns"])), "ms", base.get(subject["label"]))
    if not bench.warm or not bench.floor:
        return
    script = bench.directory / "floor.py"
    script.write_text(WORKLOADS["stdlib"])
    modules = re.findall(r'"([^"]+)"', re.search(r"^preload: \[(.*?)\]", shipped_policy("python"), re.M | re.S)[1])
    with bench.server("floors", "pool") as server:
        path = bench.request(server, "floors", code=WORKLOADS["stdlib"])
        for clients in FLOOR_CLIENTS:
            least, ours = [], []
            for _ in range(FLOOR_TURNS):
                least.append(python_floor_rate(bench, clients, script, modules))
                result = bench.load(server, path, clients, 500000, bench.options.duration_ms // 2)
                ours.append(len(result["taken_ns"]) / result["seconds"])
            bench.report.add(f"floor.fork_{clients}", statistics.median(least), "jobs/s")
            bench.report.add(f"floor.clients_{clients}", statistics.median(ours), "jobs/s", f"floor.fork_{clients}")


def sleepers(bench):
    """Jobs that sleep, started one after the other until all of them run at once: does the last start as soon as the first?"""
    n, interval_ms = bench.options.sleepers, bench.options.interval_ms
    asleep_s = n * interval_ms / 1000 + 2
    limits = f"max_concurrent_jobs: {n}\nmax_connections: {n + 64}\nmax_connections_per_address: 0\n"
    with bench.server("sleepers", bench.best(), limits) as server:
        path = bench.request(server, "sleepers", code=SLEEPER.format(asleep_s), timeout_ms=60000)
        # What the first job of a server pays once is no matter of how many others there are.
        bench.load(server, bench.request(server, "first", code=WORKLOADS["print"]), 1, 20, 10000)
        result = bench.load(server, path, n, n, int(asleep_s * 1000) + 2000, interval_ms)
    starts = milliseconds(result["started_ns"])
    few = max(1, n // 50)
    bench.report.add("sleepers.answered", len(result["taken_ns"]), "jobs")
    bench.report.add("sleepers.first_start", statistics.median(starts[:few]), "ms")
    bench.report.add("sleepers.last_start", statistics.median(starts[-few:]), "ms", "sleepers.first_start")
    bench.report.note(f"Sleeping jobs: {n}, one every {interval_ms} ms, each asleep for {asleep_s:g} s; first and last are the medians "
                      f"of the first and the last {few}.")
    bench.report.series["sleepers"] = list(enumerate(starts, 1))


def profile(bench):
    """Where a launch without a template spends its time."""
    launches = ["xargs", "-n1", *bench.run, *TRUE]
    numbers = "\n".join(map(str, range(LAUNCHES)))
    run = {"input": numbers, "text": True, "capture_output": True}
    if "strace" in bench.have:
        out = bench.directory / "strace.txt"
        done = subprocess.run(["strace", "-f", "-c", "-o", str(out), *launches], **run)
        if done.returncode == 0:
            calls = re.findall(r"^\s*[0-9.]+\s+([0-9.]+)\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", out.read_text(), re.M)
            table = [(name, float(seconds) * 1e6 / LAUNCHES, int(count) / LAUNCHES) for seconds, count, name in calls
                     if name not in ("total", *WAITING)]
            bench.report.series["strace"] = sorted(table, key=lambda row: -row[1])[:12]
        else:
            bench.report.leave_out("strace does not work here")
    if "perf" in bench.have:
        data = str(bench.directory / "perf.data")
        done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-g", "-F", "10000", "-o", data, "--", *launches], **run)
        shown = subprocess.run(["perf", "report", "-i", data, "--stdio", "-q", "--children", "-g", "none", "-s", "symbol",
                                "--comms", "immure,true"], capture_output=True, text=True)
        shares = re.findall(r"^\s*([0-9.]+)%.*\[k\] " + PLACES, shown.stdout, re.M)
        if done.returncode == 0 and shares:
            bench.report.series["perf"] = [(next(filter(None, names)), float(share)) for share, *names in shares][:16]
        else:
            bench.report.leave_out("perf does not work here")
        Path(data).unlink(missing_ok=True)


SECTIONS = (packages, latency, bridged_calls, throughput, floors, sleepers, profile)


def all_of_it(bench, scratch, progress):
    missing = [tool for tool in TOOLS if tool not in bench.have]
    if missing:
        packages = " ".join(TOOLS[tool][0] for tool in missing)
        bench.report.leave_out("; ".join(TOOLS[tool][1] for tool in missing) + f" (for which: apt-get install {packages})")
    progress("contest")
    contest(bench, scratch)
    for section in SECTIONS:
        progress(section.__name__)
        section(bench)
