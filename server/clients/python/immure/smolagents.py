"""The executor for smolagents: CodeAgent(tools=[…], model=…, executor=ImmureExecutor(client)). Its state is a kernel's; tools run in the caller's process."""

from __future__ import annotations

import ast
import json
import uuid
from typing import Any

from smolagents.local_python_executor import CodeOutput, PythonExecutor

from ._client import Immure
from ._tool import text_of

_SETUP = """
class _FinalAnswer(BaseException): pass
def _told(kind, value):
    try: set_result({"kind": kind, "value": value})
    except (TypeError, ValueError): set_result({"kind": kind, "value": repr(value)})
def final_answer(answer=None):
    _told("final", answer)
    raise _FinalAnswer
"""
_TOOL = """
def {name}(*args, **kwargs):
    return call_tool({name!r}, {{"args": list(args), "kwargs": kwargs}})
"""


def _telling_its_value(code: str) -> str:
    """The same program, which tells of the value of its last expression."""
    tree = ast.parse(code)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Expr(ast.Call(ast.Name("_told", ast.Load()), [ast.Constant("value"), tree.body[-1].value], [])), tree.body[-1])
    return ast.unparse(ast.fix_missing_locations(tree))


class ImmureExecutor(PythonExecutor):
    """`policy` is one with kernels. `fields`: further ones of each job."""

    def __init__(self, client: Immure, *, policy: str = "python-kernel", **fields: Any) -> None:
        self.client, self.tools = client, {}
        self.fields = {"policy": policy, "session_id": f"smolagents-{uuid.uuid4()}", **fields}
        self._run(_SETUP)

    def _call(self, name: str) -> Any:
        return lambda args, kwargs: self.tools[name](*args, **kwargs)

    def _run(self, code: str) -> dict[str, Any]:
        reply = self.client.execute(code, tools={name: self._call(name) for name in self.tools}, **self.fields)
        if "approval_id" in reply:
            raise RuntimeError(text_of(reply))
        told = json.loads(reply["output"] or "null")
        if reply["status"] != "success" and not (told and told["kind"] == "final"):
            raise RuntimeError(f"{reply['stdout']}{reply['stderr']}" or reply.get("error") or reply["status"])
        return {**reply, "told": told}

    def send_tools(self, tools: dict[str, Any]) -> None:
        own = {name: tool for name, tool in tools.items() if name != "final_answer"}
        self.tools.update(own)
        if own:
            self._run("".join(_TOOL.format(name=name) for name in own))

    def send_variables(self, variables: dict[str, Any]) -> None:
        if variables:
            self._run(f"import json\nglobals().update(json.loads({json.dumps(variables)!r}))")

    def __call__(self, code_action: str) -> CodeOutput:
        reply = self._run(_telling_its_value(code_action))
        told = reply["told"] or {"kind": "value", "value": None}
        return CodeOutput(output=told["value"], logs=reply["stdout"], is_final_answer=told["kind"] == "final")

    def cleanup(self) -> None:
        self.client.session(self.fields["session_id"]).end()
