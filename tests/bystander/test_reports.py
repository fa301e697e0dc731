"""Runs of POST /run-code that report more than their caller reads: the events wait in the front."""

import contextlib

from bystander import Bystander
from harness import wait_for
from test_keys import KEYS, MIB, OTHER, ask_and_wait, front_bytes, metric

WITHOUT_NODE = False


def test_reports_that_nobody_reads(serve, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda n: OTHER)
    server = serve(config=KEYS + f"max_unread_bytes: {4 * MIB} reply_stall_ms: 60000\n", SANDBOX_EXECUTOR_SERVICE_API_KEY=None)
    body = {"source": "for (let i = 0; i < 500000; i++) report(0); export default 1", "options": {"report": True}, "stream": True}
    bystander = Bystander(server, OTHER)
    before, most = front_bytes(server), []
    with contextlib.ExitStack() as stack, bystander.watching():
        for number in range(3):  # 12 MB each; the key's share is 2 MiB
            connection = ask_and_wait(server, "/run-code", stack, body=body)
            assert b" 200 " in connection.recv(100)
            wait_for(lambda: most.append(front_bytes(server)) or metric(server, 'immure_http_replies_dropped_total{reason="budget"}') == number + 1,  # noqa: B023
                     "the end of a stream that nobody reads", 60)
            assert metric(server, "immure_http_unread_bytes") <= 2 * MIB
            wait_for(lambda: metric(server, "immure_jobs_running") <= 1, "the end of its run", 60)  # the bystander's own may run
    assert max(most) - before < 32 * MIB, f"{(max(most) - before) >> 20} MiB"
    assert "event=reply_dropped" in server.log()
