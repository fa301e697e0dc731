"""Calls by the client that was generated; test_openapi.py runs this beside it: URL KEY -> how many requests were made."""

import base64
import sys

from immure_client import AuthenticatedClient, models
from immure_client.api.default import approvals, end_job, end_session, execute, healthz, job, metrics, readyz, run_code, sessions

URL, KEY = sys.argv[1:]
REQUESTS = []
client = AuthenticatedClient(base_url=URL, token=KEY, timeout=60, raise_on_unexpected_status=True,
                             httpx_args={"event_hooks": {"request": [REQUESTS.append]}})


def run(code, wait=True, **fields):
    return execute.sync(client=client, body=models.ExecuteRequest(code=code, **fields), wait=wait)


assert readyz.sync_detailed(client=client).status_code == 200
assert healthz.sync(client=client).status == "ready"

reply = run("print(6 * 7)")
assert isinstance(reply, models.ExecuteReply) and reply.stdout == "42\n" and reply.status == models.ExecuteReplyStatus.SUCCESS, reply

reply = run("open('out', 'w').write(open('in').read().upper())", files=[models.InputFile(name="in", content="a")], outputs=["out"])
assert [(file.name, base64.b64decode(file.data)) for file in reply.files] == [("out", b"A")], reply

reply = run("open('kept', 'w').close()\nwhile True: pass", timeout_ms=300, session_id="one")
assert reply.status == models.ExecuteReplyStatus.TIMEOUT and reply.killed and reply.limits.timeout_ms == 300, reply

reply = run("1", limits=models.LimitWishes(memory_bytes=1 << 50))
assert isinstance(reply, models.Error) and reply.field == "limits.memory_bytes", reply

started = run("while True: pass", wait=False)
assert isinstance(started, models.Job) and started.status == models.JobStatus.RUNNING, started
assert end_job.sync_detailed(started.job_id, client=client, body=models.EndJobBody(reason="enough")).status_code == 204
assert job.sync(started.job_id, client=client).job_id == started.job_id

assert [session.session_id for session in sessions.sync(client=client).sessions] == ["one"]
assert end_session.sync_detailed("one", client=client).status_code == 204
assert sessions.sync(client=client).sessions == []

options = models.RunCodeOptions.from_dict({"execute": {"fn": "default", "args": [21]}})
reply = run_code.sync(client=client, body=models.RunCodeRequest(source="export default (a: number) => a * 2", options=options))
assert isinstance(reply, models.RunCodeReply) and reply.status == models.RunCodeReplyStatus.SUCCESS and reply.result == 42, reply

assert approvals.sync(client=client).approvals == []
assert 'immure_jobs_total{runtime="python",status="success"} 2' in metrics.sync(client=client)
print(len(REQUESTS))
