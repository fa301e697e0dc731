"""The tool for LangChain: create_agent(model, tools=[execute_code(client)])."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import StructuredTool

from ._calls import Tools
from ._client import Immure
from ._tool import DESCRIPTION, NAME, text_of
from .aio import AsyncImmure


def execute_code(client: Immure, *, tools: Tools | None = None, **fields: Any) -> StructuredTool:
    """`tools`: what programs may call. `fields`: further ones of each job."""
    def run(code: str, language: str = "python") -> str:
        return text_of(client.execute(code, language=language, tools=tools, **fields))

    async def run_async(code: str, language: str = "python") -> str:
        return text_of(await AsyncImmure.of(client).execute(code, language=language, tools=tools, **fields))

    return StructuredTool.from_function(run, run_async, name=NAME, description=DESCRIPTION)
