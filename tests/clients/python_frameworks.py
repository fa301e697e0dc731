"""python_frameworks.py NAME URL KEY: an agent framework's own tool or executor, made by our adapter and used as the framework does. Prints JSON."""

import asyncio
import json
import sys

import immure


def agent_framework(place):
    from agent_framework import FunctionTool
    from immure.agent_framework import CodeExecutionTool

    async def main():
        async with immure.AsyncImmure(*place) as client:
            tool = CodeExecutionTool(client, timeout=20, approval_mode="never_require")
            texts = [content.text for code in ("print(6 * 7)", "import sys; sys.exit('no')", "pass") for content in await tool.invoke(arguments={"code": code})]
            slow = CodeExecutionTool(client, timeout=1)
            late, = await slow.invoke(arguments={"code": "while True: pass"})
            return {"texts": [*texts, late.text], "is": isinstance(tool, FunctionTool), "modes": [tool.approval_mode, slow.approval_mode],
                    "parameters": list(tool.parameters()["properties"])}
    return asyncio.run(main())


def langchain(place):
    from immure.langchain import execute_code
    tool = execute_code(immure.Immure(*place), tools={"six": lambda: 6})
    later = asyncio.run(tool.ainvoke({"code": "print(2)"}))
    return {"name": tool.name, "texts": [tool.invoke({"code": "print(6 * call_tool('six'))"}), later], "parameters": sorted(tool.args)}


def smolagents(place):
    from immure.smolagents import ImmureExecutor
    from smolagents import CodeAgent, Tool
    from smolagents.models import ChatMessage, MessageRole, Model

    class Twice(Tool):
        name, description, output_type = "twice", "Twice as much.", "integer"
        inputs = {"n": {"type": "integer", "description": "a number"}}

        def forward(self, n: int) -> int:
            return 2 * n

    class Scripted(Model):
        steps = iter(["x = twice(10)\nprint(x)\nx", "1 / 0", "final_answer({'sum': x + twice(n=bonus)})"])

        def generate(self, messages, **_):
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: on.\n<code>\n{next(self.steps)}\n</code>")

    executor = ImmureExecutor(immure.Immure(*place))
    agent = CodeAgent(tools=[Twice()], model=Scripted(), executor=executor, additional_authorized_imports=["*"])
    answer = agent.run("x", additional_args={"bonus": 11})
    steps = [step for step in agent.memory.steps if getattr(step, "code_action", None)]
    executor.cleanup()
    return {"answer": answer, "observations": steps[0].observations, "error": str(steps[1].error)}


if __name__ == "__main__":
    name, *place = sys.argv[1:]
    print(json.dumps(globals()[name](place)))
