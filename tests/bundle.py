"""An OCI bundle for crun: this host's programs, read-only, an ordinary user, no capability, no way to get any.

What a hardened container is everywhere: the masked and read-only paths of `crun spec`, the seccomp profile that immure
ships for containers, a tmpfs on /tmp and nothing else writable. The host's network stays, so that tests can call in."""

import json
import os
import subprocess
import uuid
from pathlib import Path

from harness import BUILD, IMMURE, ROOT

UID = 1000
PROFILE = ROOT / "config/deploy/container/seccomp.json"

# crun refuses to run at all where cgroup v1 and v2 are mixed, though it is told to leave cgroups alone. In a mount namespace
# of its own it gets to see cgroup v2 only; the host's mounts stay as they are.
ONLY_CGROUP2 = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                '[ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec "$@"', "sh"]


class Bundle:
    """`command(argv)` is how to run argv in a container made of this bundle.

    `cgroup` (a directory of cgroup v2) is where the container gets one of its own, delegated to its user."""

    def __init__(self, directory, cgroup=None):
        self.directory, self.name = Path(directory), f"immure-test-{uuid.uuid4().hex[:8]}"
        self.manager = "disabled"
        self.make_rootfs()
        subprocess.run(["crun", "spec"], cwd=directory, check=True)
        self.config = json.loads((self.directory / "config.json").read_text())
        self.harden(cgroup)

    def make_rootfs(self):
        rootfs = self.directory / "rootfs"
        for place in ("proc", "dev", "sys", "tmp", "usr", "etc", *(str(path).lstrip("/") for path in self.shown())):
            (rootfs / place).mkdir(parents=True, exist_ok=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (rootfs / link).symlink_to(f"usr/{link}")

    @staticmethod
    def shown():
        """What of this checkout is visible inside."""
        return {BUILD.resolve(), Path(IMMURE).resolve().parent, ROOT / "config"}

    def harden(self, cgroup):
        config, linux = self.config, self.config["linux"]
        process = config["process"]
        process.update(terminal=False, user={"uid": UID, "gid": UID}, noNewPrivileges=True, cwd="/",
                       capabilities={name: [] for name in process["capabilities"]})
        config["root"] = {"path": "rootfs", "readonly": True}
        config["hostname"] = "container"
        mounts = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
        mounts.append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]})
        for path in ("/usr", "/etc", *map(str, sorted(self.shown()))):
            mounts.append({"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]})
        linux["namespaces"] = [kind for kind in linux["namespaces"] if kind["type"] not in ("network", "cgroup")]
        if cgroup:
            self.delegate(cgroup / "container")
            mounts.append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                           "options": ["nosuid", "noexec", "nodev", "rw"]})
        linux.pop("resources", None)
        linux["seccomp"] = json.loads(PROFILE.read_text())
        config["mounts"] = mounts

    def delegate(self, cgroup):
        self.manager = "cgroupfs"
        linux = self.config["linux"]
        linux["namespaces"].append({"type": "cgroup"})
        linux["cgroupsPath"] = "/" + str(cgroup.relative_to("/sys/fs/cgroup"))
        files = " ".join(f"{cgroup}/{name}" for name in (".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"))
        self.config["hooks"] = {"createRuntime": [{"path": "/bin/sh", "args": ["sh", "-c", f"chown {UID}:{UID} {files}"]}]}

    def command(self, argv=(), environment=()):
        """`environment` names variables that are handed in from the caller's."""
        process = self.config["process"]
        process["args"] = list(argv) or ["/bin/true"]
        process["env"] = ["PATH=/usr/bin:/bin", *(f"{name}={os.environ[name]}" for name in environment)]
        (self.directory / "config.json").write_text(json.dumps(self.config))
        return [*ONLY_CGROUP2, "crun", "--root", str(self.directory / "state"), f"--cgroup-manager={self.manager}", "run",
                "--bundle", str(self.directory), self.name]

    def run(self, *argv, **options):
        return subprocess.run(self.command(argv), capture_output=True, text=True, timeout=120, **options)
