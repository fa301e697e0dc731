"""A hardened container that owns a cgroup: limits are the kernel's there as well."""

import os

import pytest

from bundle import Bundle
from harness import Server


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes containers of another user")
def test_a_container_with_a_cgroup_of_its_own(cgroup, tmp_path, monkeypatch):
    server = Server(tmp_path / "log", cgroup="REQUIRED")
    names = [name for name in server.environment if name.startswith("SANDBOX_")]
    for name in names:
        monkeypatch.setenv(name, server.environment[name])
    server.argv = Bundle(tmp_path, cgroup.path).command(server.argv, environment=names)
    with server:
        verdict = server.execute("x = b'x' * (1 << 30)", limits={"memory_bytes": 64 << 20})
        assert (verdict["oom"], verdict["limits"]["enforced_by"]) == (True, "cgroup2")
