"""The client, and what it gives."""

from __future__ import annotations

import http.client
import json
import ssl
import uuid
from types import TracebackType
from typing import Any, Callable
from urllib.parse import quote

from ._calls import Calls, Tools, call_tool
from ._http import Hangup, Http, ImmureError, events, is_events
from ._run_code import CodeExecution

Json = dict[str, Any]
POLL_S = 0.2


def _part(text: str) -> str:
    return quote(text, safe="")


class Session:
    """Jobs with one id share a workspace. As a context manager it ends with the block."""

    def __init__(self, client: Immure, session_id: str) -> None:
        self._client, self.id = client, session_id

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def _file(self, name: str) -> str:
        return f"/sessions/{_part(self.id)}/files/{quote(name)}"

    def execute(self, code: str, **fields: Any) -> Json:
        return self._client.execute(code, session_id=self.id, **fields)

    def files(self) -> list[Json]:
        return self._client.http.json("GET", f"/sessions/{_part(self.id)}/files")["files"]

    def get(self, name: str) -> bytes:
        with self._client.http.send("GET", self._file(name)) as response:
            return response.read()

    def put(self, name: str, data: bytes | str) -> Json:
        return self._client.http.json("PUT", self._file(name), data.encode() if isinstance(data, str) else bytes(data))

    def remove(self, name: str) -> None:
        self._client.http.json("DELETE", self._file(name))

    def fork(self, to: list[str]) -> Json:
        """Copies of its files, each a session of its own: all of them, or none. -> {files, left_out, kernel}"""
        return self._client.http.json("POST", f"/sessions/{_part(self.id)}/fork", {"to": to})

    def diff(self, other: str) -> Json:
        """What is other in the files of that session -> {added, removed, changed, truncated}"""
        return self._client.http.json("GET", f"/sessions/{_part(self.id)}/diff/{_part(other)}")

    def restore(self, source: str) -> Json:
        """Its files become a copy of that session's. -> {files, left_out, kernel}"""
        return self._client.http.json("POST", f"/sessions/{_part(self.id)}/restore", {"from": source})

    def end(self) -> None:
        self._client.http.json("DELETE", f"/workspace/{_part(self.id)}")


class Jobs:
    """Jobs whose callers do not wait: the server keeps their replies for a while."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def start(self, code: str, **fields: Any) -> Json:
        """-> {job_id, status, …} at once, or {approval_id, status, …}"""
        return self._http.json("POST", "/execute?wait=false", {"code": code, **fields})

    def get(self, job_id: str) -> Json:
        return self._http.json("GET", f"/jobs/{_part(job_id)}")

    def list(self) -> list[Json]:
        return self._http.json("GET", "/jobs")["jobs"]

    def cancel(self, job_id: str, reason: str | None = None) -> None:
        self._http.json("DELETE", f"/jobs/{_part(job_id)}" + (f"?reason={_part(reason)}" if reason else ""))

    def wait(self, job_id: str, *, tools: Tools | None = None, poll: float = POLL_S, hangup: Hangup | None = None) -> Json:
        """-> the job, once it has ended. `tools` answers what it calls, where its `calls` are "stream"."""
        begun: set[str] = set()
        hangup = hangup or Hangup()
        job = self.get(job_id)
        with Calls(self._http, job["execution_id"], lambda name, args: call_tool(tools or {}, name, args), hangup) as calls:
            while job["status"] == "running":
                fresh = [call for call in job.get("calls", []) if call["id"] not in begun]
                begun.update(call["id"] for call in fresh)
                for call in fresh:
                    calls.take(call)
                if hangup.ended.wait(poll):
                    raise calls.lost or ImmureError("nobody waits for the job any more")
                job = self.get(job_id)
        return job


class Approvals:
    """Jobs that wait for somebody's decision; for keys of approvers."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> list[Json]:
        return self._http.json("GET", "/approvals")["approvals"]

    def get(self, approval_id: str) -> Json:
        return self._http.json("GET", f"/approvals/{_part(approval_id)}")

    def approve(self, approval_id: str, reason: str | None = None) -> Json:
        return self._http.json("POST", f"/approvals/{_part(approval_id)}", {"decision": "approve", "reason": reason})

    def reject(self, approval_id: str, reason: str | None = None) -> Json:
        return self._http.json("POST", f"/approvals/{_part(approval_id)}", {"decision": "reject", "reason": reason})


class Immure:
    """`url` and `key` of a server. `timeout`: seconds for each read and write; None: none. `retry_budget`: seconds for which a busy server is tried again.
    `context`: TLS of one's own. Safe to use from several threads."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float | None = None, retry_budget: float = 30.0,
                 context: ssl.SSLContext | None = None) -> None:
        self.http = Http(url, key, timeout, retry_budget, context)
        self.jobs = Jobs(self.http)
        self.approvals = Approvals(self.http)

    def __enter__(self) -> Immure:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.http.close()

    def execute(self, code: str, *, tools: Tools | None = None, on_stdout: Callable[[str], object] | None = None,
                on_stderr: Callable[[str], object] | None = None, hangup: Hangup | None = None, **fields: Any) -> Json:
        """Runs a program -> the server's reply, as a dict, or {approval_id, status, …}. `fields`: further ones of POST /execute. What fails
        before the program starts is an ImmureError. `tools`: what it may call, by name; each gets its arguments by their names."""
        body = {"code": code, **fields}
        if tools is None and on_stdout is None and on_stderr is None:
            return self.http.json("POST", "/execute", body, hangup=hangup)
        if tools is not None:
            body = {"calls": "stream", "execution_id": str(uuid.uuid4()), **body}
        hangup = hangup or Hangup()
        with Calls(self.http, body.get("execution_id", ""), lambda name, args: call_tool(tools or {}, name, args), hangup) as calls:
            try:
                with self.http.send("POST", "/execute", body, headers={"Accept": "text/event-stream"}, hangup=hangup) as response:
                    if not is_events(response):
                        return json.loads(response.read())
                    for event, data in events(response):
                        if event == "stdout" and on_stdout:
                            on_stdout(data["text"])
                        elif event == "stderr" and on_stderr:
                            on_stderr(data["text"])
                        elif event == "call":
                            calls.take(data)
                        elif event == "result":
                            return data
            except (OSError, http.client.HTTPException) as error:
                raise calls.lost or ImmureError(f"the connection ended before the program did: {error}") from error
            raise calls.lost or ImmureError("the connection ended before the program did")

    def run_code(self, source: str, **options: Any) -> CodeExecution:
        """Evaluates a module with the caller's own functions. Options: execute, imports, modules, globals, language, memory_limit_bytes, filename,
        report; timeout_ms, queue_ms, execution_id."""
        return CodeExecution(self.http, source, options)

    def session(self, session_id: str) -> Session:
        return Session(self, session_id)

    def sessions(self) -> list[Json]:
        return self.http.json("GET", "/sessions")["sessions"]

    def runtimes(self) -> list[Json]:
        return self.http.json("GET", "/runtimes")["runtimes"]

    def policies(self) -> list[Json]:
        return self.http.json("GET", "/policies")["policies"]
