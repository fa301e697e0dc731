"""run_code(source, **options): an ES module in a realm of its own, with the caller's functions."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import http.client
import json
import threading
import time
import uuid
from typing import Any
from urllib.parse import quote

from ._calls import Calls, settled
from ._http import Hangup, Http, ImmureError, events
from ._values import Functions, decode, encode


@dataclasses.dataclass
class CodeExecutionError:
    name: str
    message: str
    stack: str | None = None
    specifier: str | None = None
    filename: str | None = None
    line: int | None = None
    column: int | None = None


@dataclasses.dataclass
class CodeExecutionResult:
    """`status`: success, error, memory, terminated or link_error. `duration_ms`: from run_code() until it settled."""

    status: str
    result: Any
    reports: list[Any]
    logs: list[dict[str, Any]]
    error: CodeExecutionError | None
    duration_ms: float
    memory_used_bytes: int | None


def body_of(source: str, functions: Functions, *, execute: dict[str, Any] | None = None, imports: dict[str, dict[str, Any]] | None = None,
            modules: dict[str, str] | None = None, globals: dict[str, Any] | None = None, language: str | None = None,
            memory_limit_bytes: int | None = None, filename: str | None = None, report: Any = None, timeout_ms: int | None = None,
            queue_ms: int | None = None, execution_id: str | None = None) -> dict[str, Any]:
    if execute and execute.get("args"):
        execute = {**execute, "args": [encode(value, functions, f"execute.args[{i}]") for i, value in enumerate(execute["args"])]}
    options = {
        "execute": execute, "modules": modules, "language": language, "memoryLimitBytes": memory_limit_bytes, "filename": filename,
        "imports": imports and {name: {key: encode(value, functions, f"imports.{name}.{key}") for key, value in module.items()}
                                for name, module in imports.items()},
        "globals": globals and {key: encode(value, functions, f"globals.{key}") for key, value in globals.items()},
        "report": report and encode(report, functions, "report"),
    }
    functions.sealed = True
    return {"source": source, "options": options, "calls": "stream", "timeout_ms": timeout_ms, "queue_ms": queue_ms,
            "execution_id": execution_id or str(uuid.uuid4())}


class CodeExecution:
    """A run. result() waits for it."""

    def __init__(self, http: Http, source: str, options: dict[str, Any]) -> None:
        self._http, self._began = http, time.monotonic()
        self._functions = Functions()
        self._body = body_of(source, self._functions, **options)
        self.execution_id: str = self._body["execution_id"]
        self._reports: list[Any] = []
        self._reason: str | None = None
        self._terminated = False
        self._hangup = Hangup()
        self.future: concurrent.futures.Future[CodeExecutionResult] = concurrent.futures.Future()
        self.future.set_running_or_notify_cancel()  # it is the run that can be ended
        threading.Thread(target=self._run, name="immure-run", daemon=True).start()

    @property
    def running(self) -> bool:
        """Until it has settled."""
        return not self.future.done()

    @property
    def reports(self) -> tuple[Any, ...]:
        """What was reported so far."""
        return tuple(self._reports)

    def result(self, timeout: float | None = None) -> CodeExecutionResult:
        return self.future.result(timeout)

    def terminate(self, reason: str | None = None) -> None:
        """Ends the run; again it does nothing."""
        if self._terminated or not self.running:
            return
        self._terminated, self._reason = True, reason
        self._hangup.impatient.set()
        try:
            self._http.json("POST", f"/run-code/{quote(self.execution_id, safe='')}/terminate", {"reason": reason})
        except ImmureError:
            self._hangup()  # a server that cannot be told sees its caller hang up

    def hang_up(self) -> None:
        """As terminate(), without a request: the server sees it."""
        self._terminated = True
        self._hangup()

    def _run(self) -> None:
        try:
            reply = self._follow()
            late = self._terminated and reply["status"] != "terminated"  # the server did not come to hear of it in time
            self.future.set_result(self._settled({**reply, **self._ended()} if late else reply))
        except BaseException as error:  # noqa: BLE001: whoever waits hears of it
            if self._terminated and isinstance(error, ImmureError) and error.status in (0, 429, 503):
                self.future.set_result(self._settled(self._ended()))
            else:
                self.future.set_exception(error)

    def _ended(self) -> dict[str, Any]:
        return {"status": "terminated", "result": None, "error": {"name": "TerminatedError", "message": self._reason or "the run was terminated"}}

    def _answer(self, name: str, arguments: list[Any]) -> str:
        value = settled(self._functions.by_id[name](*map(decode, arguments)))
        return json.dumps(encode(value, self._functions, "the result"))

    def _follow(self) -> dict[str, Any]:
        with Calls(self._http, self.execution_id, self._answer, self._hangup) as calls:
            try:
                with self._http.send("POST", "/run-code", self._body, headers={"Accept": "text/event-stream"}, hangup=self._hangup) as response:
                    for event, data in events(response):
                        if event == "report":
                            self._reports.append(decode(data))
                        elif event == "call":
                            calls.take(data)
                        elif event == "result":
                            return data
            except (OSError, http.client.HTTPException) as error:
                raise calls.lost or ImmureError(f"the connection ended before the run did: {error}") from error
            raise calls.lost or ImmureError("the connection ended before the run did")

    def _settled(self, reply: dict[str, Any]) -> CodeExecutionResult:
        error = reply.get("error")
        return CodeExecutionResult(
            status=reply["status"], result=decode(reply.get("result")), reports=decode(reply.get("reports", [])),
            logs=[{**log, "args": decode(log["args"])} for log in reply.get("logs", [])], error=CodeExecutionError(**error) if error else None,
            duration_ms=(time.monotonic() - self._began) * 1000, memory_used_bytes=reply.get("memoryUsedBytes"))
