"""Calls of a program that its caller answers: `call` events in, POST /executions/ID/answers out."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import json
from collections.abc import Mapping
from typing import Any, Callable
from urllib.parse import quote

from ._http import Hangup, Http

Tools = Mapping[str, Callable[..., Any]]
CALLS_AT_ONCE = 16


def settled(value: Any) -> Any:
    """What a function has given, awaited where that is called for."""
    async def wait() -> Any:
        return await value
    return asyncio.run(wait()) if inspect.isawaitable(value) else value


def call_tool(tools: Tools, name: str, arguments: dict[str, Any]) -> str:
    """A program's call gets the JSON of what `tools[name](**arguments)` gives."""
    if name not in tools:
        raise LookupError(f"there is no tool {name}")
    return json.dumps(settled(tools[name](**arguments)))


class Calls:
    """Answers calls, several at once. `answer(name, args)` -> JSON text."""

    def __init__(self, http: Http, execution_id: str, answer: Callable[[str, Any], str], hangup: Hangup) -> None:
        self.http, self.answer, self.hangup = http, answer, hangup
        self.path = f"/executions/{quote(execution_id, safe='')}/answers"
        self.threads = concurrent.futures.ThreadPoolExecutor(CALLS_AT_ONCE, "immure-call")
        self.lost: BaseException | None = None

    def take(self, call: dict[str, Any]) -> None:
        self.threads.submit(self.run, call)

    def run(self, call: dict[str, Any]) -> None:
        try:
            said = {"data": self.answer(call["name"], call["args"])}
        except Exception as error:  # noqa: BLE001: it is the program's to hear of
            said = {"error": str(error) or type(error).__name__}
        try:
            self.http.answer(self.path, [{"id": call["id"], **said}], self.hangup)
        except Exception as error:  # noqa: BLE001: the program would wait for ever
            self.lost = error
            self.hangup()

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown(wait=False)
