"""The client for asyncio: the same methods, each to be awaited. What blocks is done in threads; functions of the caller's run in the loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Generator
from typing import Any, Callable

from ._calls import Tools
from ._client import Immure, Json
from ._http import Hangup
from ._run_code import CodeExecution, CodeExecutionResult


def _in_loop(function: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            value = function(*args, **kwargs)
            return await value if inspect.isawaitable(value) else value
        return asyncio.run_coroutine_threadsafe(run(), loop).result()
    return call


def _all_in_loop(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    if callable(value):
        return _in_loop(value, loop)
    if isinstance(value, dict):
        return {key: _all_in_loop(item, loop) for key, item in value.items()}
    return [_all_in_loop(item, loop) for item in value] if type(value) is list else value


def _tools_in_loop(tools: Tools | None) -> Tools | None:
    loop = asyncio.get_running_loop()
    return None if tools is None else {name: _in_loop(tool, loop) for name, tool in tools.items()}


class AsyncCodeExecution:
    """A run, which can be awaited."""

    def __init__(self, run: CodeExecution) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, CodeExecutionResult]:
        return self._wait().__await__()

    async def _wait(self) -> CodeExecutionResult:
        try:
            return await asyncio.wrap_future(self._run.future)
        except asyncio.CancelledError:
            self._run.hang_up()
            raise

    @property
    def execution_id(self) -> str:
        return self._run.execution_id

    @property
    def running(self) -> bool:
        return self._run.running

    @property
    def reports(self) -> tuple[Any, ...]:
        return self._run.reports

    def terminate(self, reason: str | None = None) -> None:
        asyncio.get_running_loop().run_in_executor(None, self._run.terminate, reason)


class _Threaded:
    """Every method of an object, in a thread."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        return functools.partial(asyncio.to_thread, method) if callable(method) else method


class AsyncJobs(_Threaded):
    """Jobs whose callers do not wait."""

    async def wait(self, job_id: str, *, tools: Tools | None = None, **options: Any) -> Json:
        """As Jobs.wait. A task that is cancelled waits no longer; the job goes on."""
        hangup = Hangup()
        try:
            return await asyncio.to_thread(self._target.wait, job_id, tools=_tools_in_loop(tools), hangup=hangup, **options)
        except asyncio.CancelledError:
            hangup()
            raise


class AsyncSession(_Threaded):
    """Jobs with one id share a workspace. As an asynchronous context manager it ends with the block."""

    def __init__(self, client: AsyncImmure, session_id: str) -> None:
        super().__init__(client.client.session(session_id))
        self._client = client

    async def execute(self, code: str, **fields: Any) -> Json:
        return await self._client.execute(code, session_id=self._target.id, **fields)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()


class AsyncImmure(_Threaded):
    """As Immure, with methods that are awaited. A task that is cancelled hangs up, which ends its job."""

    def __init__(self, url: str, key: str | None = None, **options: Any) -> None:
        self._take(Immure(url, key, **options))

    @classmethod
    def of(cls, client: Immure) -> AsyncImmure:
        """The same client, for asyncio."""
        made = cls.__new__(cls)
        made._take(client)
        return made

    def _take(self, client: Immure) -> None:
        super().__init__(client)
        self.client = client
        self.jobs = AsyncJobs(client.jobs)
        self.approvals = _Threaded(client.approvals)

    async def __aenter__(self) -> AsyncImmure:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.close()

    async def execute(self, code: str, *, tools: Tools | None = None, on_stdout: Callable[[str], object] | None = None,
                      on_stderr: Callable[[str], object] | None = None, **fields: Any) -> Json:
        loop, hangup = asyncio.get_running_loop(), Hangup()
        callbacks = {"on_stdout": on_stdout and _in_loop(on_stdout, loop), "on_stderr": on_stderr and _in_loop(on_stderr, loop)}
        try:
            return await asyncio.to_thread(self.client.execute, code, tools=_tools_in_loop(tools), hangup=hangup, **callbacks, **fields)
        except asyncio.CancelledError:
            hangup()
            raise

    def run_code(self, source: str, **options: Any) -> AsyncCodeExecution:
        loop = asyncio.get_running_loop()
        own = {name: _all_in_loop(value, loop) if name in ("imports", "globals", "report", "execute") else value for name, value in options.items()}
        return AsyncCodeExecution(self.client.run_code(source, **own))

    def session(self, session_id: str) -> AsyncSession:
        return AsyncSession(self, session_id)
