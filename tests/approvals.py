"""Servers whose policies need approvals, and what callers and approvers do there."""

import re

from harness import call, config_key, shipped_policy, wait_for

KEYS = {"caller": "ka", "other": "kb", "approver": "kx", "mate": "kc", "off": "kd", "retired": "ke"}


def policies(directory):
    """Writes the policies `held` (ALWAYS) and `first` (FIRST_USE). -> the directory"""
    directory.mkdir(exist_ok=True)
    text = shipped_policy("python")
    for name, mode in (("held", "ALWAYS"), ("first", "FIRST_USE")):
        changed = re.sub(r'(?m)^name: "python"', f'name: "{name}"\napproval: {mode}', text)
        (directory / f"{name}.textproto").write_text(changed)
    return directory


def configuration(directory, more=""):
    """Keys, teams and policies, in the text format."""
    lists = {"policy": ["*"]}
    return (config_key("caller", KEYS["caller"], team="t", **lists) + config_key("mate", KEYS["mate"], team="t", **lists)
            + config_key("other", KEYS["other"], **lists) + config_key("off", KEYS["off"], team="off", **lists)
            + config_key("approver", KEYS["approver"]).replace(" }", " approver: true }")
            + config_key("retired", KEYS["retired"], team="off").replace(" }", " approver: true }")
            + f'team {{ name: "t" enabled: true }} policy_path: "{policies(directory)}"\n' + more)


def submit(server, code="print(6 * 7)", key="caller", policy="held", **fields):
    return call(server, "POST", "/execute", {"code": code, "policy": policy, **fields}, KEYS[key])


def submitted(server, *arguments, **fields):
    """-> the id of an approval that is required"""
    reply = submit(server, *arguments, **fields)
    assert reply.status == 202, reply.body
    assert reply.json["status"] == "approval_required"
    assert reply.headers["Location"] == f"/approvals/{reply.json['approval_id']}"
    return reply.json["approval_id"]


def decide(server, approval_id, decision="approve", key="approver", **fields):
    return call(server, "POST", f"/approvals/{approval_id}", {"decision": decision, **fields}, KEYS[key])


def look(server, approval_id, key="approver"):
    return call(server, "GET", f"/approvals/{approval_id}", key=KEYS[key])


def settled(server, approval_id, key="approver"):
    """-> where an approval stands when its job has ended, or never will begin"""
    def ended():
        told = look(server, approval_id, key)
        assert told.status == 200, told.body
        return told.json if told.json["status"] in ("done", "lost", "rejected", "expired") else None
    return wait_for(ended, f"the end of {approval_id}", 60)


def result(server, approval_id, key="caller"):
    """-> the job's reply, once there is one"""
    def ended():
        reply = call(server, "GET", f"/jobs/{approval_id}", key=KEYS[key])
        return reply.json if reply.status == 200 and reply.json["status"] != "running" else None
    return wait_for(ended, f"the result of {approval_id}", 60)


def audited(server, approval_id):
    """The states that the audit trail on the log tells of."""
    return re.findall(rf"event=approval approval_id={approval_id} state=(\w+)", server.log())
