"""The tool for Microsoft's agent framework: Agent(…, tools=[CodeExecutionTool(client)])."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import agent_framework
from pydantic import Field

from ._tool import DESCRIPTION, NAME, text_of
from .aio import AsyncImmure

# Its name in the releases before and after 1.0.
_Base: Any = getattr(agent_framework, "FunctionTool", None) or agent_framework.AIFunction


class CodeExecutionTool(_Base):  # type: ignore[misc]
    """`environment` "image": jobs run in the image `image` of the server's. `timeout`: seconds. `fields`: further ones of each job."""

    def __init__(self, client: AsyncImmure, *, environment: Literal["python", "image"] = "python", image: str | None = None, timeout: int = 30,
                 approval_mode: Literal["always_require", "never_require"] = "always_require", fields: dict[str, Any] | None = None,
                 **kwargs: Any) -> None:
        if environment not in ("python", "image"):
            raise ValueError(f'environment: must be "python" or "image", not {environment!r}')
        if (environment == "image") != (image is not None):
            raise ValueError('image: goes with environment="image", and that with it')
        self.client, self.environment, self.image, self.timeout = client, environment, image, timeout
        self.fields = {"timeout": timeout, **({"environment": "image", "image": image} if image else {}), **(fields or {})}
        super().__init__(name=NAME, description=DESCRIPTION, approval_mode=approval_mode, func=self._execute, **kwargs)

    async def _execute(self, code: Annotated[str, Field(description="Code to execute")]) -> str:
        return text_of(await self.client.execute(code, **self.fields))
