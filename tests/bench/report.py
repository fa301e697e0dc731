"""What `make bench` writes: results.json, report.md and plots.

results.json is {"settings": {…}, "left_out": ["…"], "rows": [row, …]}. A row is
  name    what was measured, "group.subject[.detail]"
  value   a median, or what `unit` says; null where it was not measured
  unit    "ms", "jobs/s", "MiB", "jobs"
  base    the name of the row that it is compared with, or null
  ratio   value / base's value, or null
  target  "value <= 1.5" or "ratio <= 0.18", or null
  met     true, false, or null: no target, or not measured
"""

import json
import shutil
import subprocess

# name: what of it must be what. {sleepers} is the number of sleeping jobs.
TARGETS = {
    "true.immure_run_extra": "value <= 1.5",
    "print.post_off": "ratio <= 1.5",
    "print.post_ready": "ratio <= 0.18",
    "stdlib.post_ready": "ratio <= 0.09",
    "print.post_pool": "ratio <= 0.18",
    "stdlib.post_pool": "ratio <= 0.09",
    "pandas.post_ready": "ratio <= 0.06",
    "png.post_ready": "ratio <= 0.25",
    "print_numpy.post_ready": "ratio <= 0.18",
    "stdlib_numpy.post_ready": "ratio <= 0.09",
    "memory.packages_private": "value <= 8",
    "node.post_pool": "ratio <= 0.1",
    "isolate.post_pool": "ratio <= 0.1",
    "isolate.calls": "value >= 3000",
    "tools.calls": "value >= 3000",
    "latency.print.p50": "ratio <= 0.18",
    "latency.stdlib.p50": "ratio <= 0.09",
    "latency.print.p99": "ratio <= 5",
    "latency.stdlib.p99": "ratio <= 5",
    "throughput.clients_2": "ratio >= 7",
    "throughput.clients_4": "ratio >= 7",
    "floor.immure_run": "ratio <= 1.25",
    "floor.bwrap": "ratio >= 1",
    "floor.clients_2": "ratio >= 0.85",
    "floor.clients_4": "ratio >= 0.85",
    "sleepers.answered": "value >= {sleepers}",
    "sleepers.last_start": "ratio <= 2",
    "memory.parked_private": "value <= 2",
}

GROUPS = {
    "true": "The smallest program (/bin/true)",
    "print": "print(1)",
    "stdlib": "A script that imports and uses json, re, math, statistics, collections",
    "pandas": "Debian's numpy and pandas, imported, and `describe()`, against the same in a bare interpreter (`python3 -s -c`)",
    "png": "matplotlib: a figure as PNG, against the same there",
    "print_numpy": "print(1) where numpy is preloaded, from a virtual environment, against a bare interpreter without",
    "stdlib_numpy": "The script with the standard library, the same",
    "node": "Node: `node -e 0` against `setResult(1)`, in a Node that stands ready (`post_pool`) or is started for it",
    "isolate": "POST /run-code: `node -e 0` against `export default 42`, and calls of the caller's functions in one run",
    "tools": "Calls of a tool in one Python program, one after the other, to a server that answers at once",
    "healthz": "Client and transport alone (GET /healthz)",
    "latency": "One client, one connection, one job after the other",
    "throughput": "Several clients, the standard-library script, against `xargs -P2` of the bare interpreter",
    "floor": "The least that jails cost: `immure run /bin/true` to its floor, bubblewrap to `immure run`, throughput to that of bare forks",
    "setup": "Setting up a jail, from the audit log",
    "memory": "A parked jail",
    "sleepers": "Many jobs at once",
}

WORDS = """
`bare` is `python3 -I -S -c`; `bwrap`, `unshare`, `crun` and `immure_run` are the same inside; `post_pool` is `POST /execute` as shipped (parked
jails), `post_template` forks from the template when the job comes, `post_off` starts an interpreter for each. All of these take turns in one run,
with a pause of a few milliseconds in between. `post_ready` is `post_pool` in turns with the bare interpreter alone (`bare_ready`), right after
that. A command is timed from posix_spawn to wait, a request from its first byte sent to the last byte received on a connection that stays open.
`crun` has no cgroup of its own to set up, and what it prints goes nowhere. `immure_version` (`immure --version`) is what `immure_run` costs
before it has done anything: a second program's start, of which in many virtual machines most is the C library asking what the processor can do.
The floor is what the kernel takes for a jail, whoever launches it, and nothing else: no policy, limits, filter or server. `floor.true` is a
command in seven fresh namespaces with a root and a PID 1 of its own; `floor.fork_N`, N processes that fork a warm interpreter with the same
modules into such namespaces, again and again, where it runs the script of `floor.clients_N`. Both take turns.
"""

STYLE = """set terminal svg size 900,480 dynamic background "white"
set output "{name}.svg"
set grid ytics
set style fill solid 0.7
set key top left
"""

# name: (title, what is drawn).
PLOTS = {
    "starts": ("Start to end of a program, median (ms)",
               'set style data histogram\nset yrange [0:*]\nset xtics rotate by -30\n'
               'plot "starts.dat" using 2:xtic(1) title "print(1)", "" using 3 title "standard-library script"'),
    "throughput": ("Jobs per second by clients",
                   'set style data histogram\nset yrange [0:*]\n'
                   'plot "throughput.dat" using 2:xtic(1) title "POST /execute", "" using 3 with lines lw 2 title "xargs -P2 python3"'),
    "latency": ("Time of a job by clients (ms)",
                'set logscale xy\nset xtics (1, 2, 4, 16, 64)\nset style data linespoints\n'
                'plot "throughput.dat" using 1:4 title "p50", "" using 1:5 title "p95", "" using 1:6 title "p99"'),
    "setup": ("System calls of a launch without a template (µs)",
              'set style data histogram\nset yrange [0:*]\nset xtics rotate by -30\nplot "setup.dat" using 2:xtic(1) notitle'),
    "sleepers": ("From request to the program's first line (ms), by jobs that run already",
                 'set yrange [0:*]\nplot "sleepers.dat" using 1:2 with points pt 7 ps 0.3 notitle'),
}


class Report:
    def __init__(self, directory, settings):
        self.directory, self.settings = directory, settings
        self.rows, self.series, self.left_out, self.notes = {}, {}, [], []

    def add(self, name, value, unit, base=None):
        self.rows[name] = {"name": name, "value": value, "unit": unit, "base": base}

    def value(self, name):
        return self.rows[name]["value"] if name in self.rows else None

    def leave_out(self, sentence):
        self.left_out.append(sentence)

    def note(self, sentence):
        self.notes.append(sentence)

    def judge(self):
        """Ratios, and targets met or not; what has a target and was not measured gets a row that says so."""
        for name, template in TARGETS.items():
            row = self.rows.setdefault(name, {"name": name, "value": None, "unit": None, "base": None})
            row["target"] = template.format(**self.settings)
        self.judge_rows()

    def judge_rows(self):
        for row in self.rows.values():
            base = self.value(row["base"])
            row["ratio"] = row["value"] / base if base and row["value"] is not None else None
            row["met"] = None
            if row.setdefault("target", None):
                field, operator, bound = row["target"].split()
                if row[field] is not None:
                    row["met"] = row[field] <= float(bound) if operator == "<=" else row[field] >= float(bound)

    def table(self, rows):
        lines = ["| | value | unit | ratio | to | target | met |", "|---|---:|---|---:|---|---|---|"]
        for row in rows:
            value = "-" if row["value"] is None else f"{row['value']:.2f}"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
            met = {True: "yes", False: "**no**", None: "not measured" if row["target"] else ""}[row["met"]]
            lines.append(f"| {row['name']} | {value} | {row['unit'] or ''} | {ratio} | {(row['base'] or '') if ratio else ''} "
                         f"| {row['target'] or ''} | {met} |")
        return lines

    def markdown(self, plots):
        lines = ["# Bench", "", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in self.settings.items()) + ".", WORDS]
        lines += [f"Left out: {sentence}." for sentence in self.left_out]
        lines += ["", "## Targets", "", *self.table([row for row in self.rows.values() if row["target"]])]
        for group, title in GROUPS.items():
            lines += ["", f"## {title}", "", *self.table([row for row in self.rows.values() if row["name"].split(".")[0] == group])]
        lines += self.dominating()
        lines += ["", *self.notes, "", *(f"![{PLOTS[name][0]}]({name}.svg)" for name in plots)]
        return "\n".join(lines) + "\n"

    def dominating(self):
        lines = ["", "## What dominates a launch without a template (`immure run … /bin/true`)", ""]
        if "strace" in self.series:
            total = sum(us for _, us, _ in self.series["strace"])
            top = ", ".join(f"{name} ({us / total:.0%})" for name, us, _ in self.series["strace"][:3])
            lines += [f"Of the time in system calls, most goes to {top}. All processes of a launch are counted (`strace -f -c`), calls that "
                      "wait for another process are not.", "",
                      "| system call | µs of system time in a launch | calls |", "|---|---:|---:|"]
            lines += [f"| {name} | {us:.0f} | {calls:.1f} |" for name, us, calls in self.series["strace"]]
        if "perf" in self.series:
            top = ", ".join(f"{name} ({share:.0f} %)" for name, share in self.series["perf"][:3])
            lines += ["", f"Of the processors' time, everything that is called from there included, most goes to {top} (`perf record -g`; "
                      "shares overlap where one is called from another):", "", "| where | share |", "|---|---:|"]
            lines += [f"| {name} | {share:.1f} % |" for name, share in self.series["perf"]]
        return lines

    def write_data(self):
        """-> the plots that there is data for"""
        value = lambda name: self.value(name) if self.value(name) is not None else "NaN"  # noqa: E731
        starts = [name.split(".")[1] for name in self.rows if name.startswith("print.")]
        clients = [name.split("_")[1] for name in self.rows if name.startswith("throughput.clients_") and name.count(".") == 1]
        data = {
            "starts": [(f'"{name}"', value(f"print.{name}"), value(f"stdlib.{name}")) for name in starts],
            "throughput": [(n, value(f"throughput.clients_{n}"), value("throughput.xargs"),
                            *(value(f"throughput.clients_{n}.{p}") for p in ("p50", "p95", "p99"))) for n in clients],
            "setup": [(f'"{name}"', us) for name, us, _ in self.series.get("strace", [])],
            "sleepers": self.series.get("sleepers", []),
        }
        data["latency"] = data["throughput"]
        for name, rows in data.items():
            (self.directory / f"{name}.dat").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
        return [name for name in PLOTS if data[name]]

    def plot(self):
        """-> the plots that were made"""
        names = self.write_data()
        for name in PLOTS:
            (self.directory / f"{name}.svg").unlink(missing_ok=True)
        if not shutil.which("gnuplot"):
            return []
        for name in names:
            title, commands = PLOTS[name]
            text = STYLE.format(name=name) + f'set title "{title}" noenhanced\nset xtics noenhanced\n{commands}\n'
            subprocess.run(["gnuplot"], input=text, text=True, cwd=self.directory, check=True)
        return names

    def write(self):
        self.judge()
        (self.directory / "report.md").write_text(self.markdown(self.plot()))
        self.write_document("results")

    def write_document(self, stem):
        document = {"settings": self.settings, "left_out": self.left_out, "rows": list(self.rows.values())}
        (self.directory / f"{stem}.json").write_text(json.dumps(document, indent=1) + "\n")

    def print_table(self):
        print(f"{'':26}{'value':>10} {'unit':7}{'ratio':>8}  target")
        for row in self.rows.values():
            value = "-" if row["value"] is None else f"{row['value']:.2f}"
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
            met = "" if not row["target"] else f"{row['target']}: " + {True: "met", False: "MISSED", None: "not measured"}[row["met"]]
            print(f"{row['name']:26}{value:>10} {row['unit'] or '':7}{ratio:>8}  {met}")
