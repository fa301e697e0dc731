"""The client of immure's HTTP interface. Nothing but the standard library is needed."""

from ._client import Approvals, Immure, Jobs, Session
from ._http import ImmureError
from ._run_code import CodeExecution, CodeExecutionError, CodeExecutionResult
from ._values import UNDEFINED, BigInt, Bytes, Map, SerializationError, Set
from .aio import AsyncImmure

__all__ = ["UNDEFINED", "Approvals", "AsyncImmure", "BigInt", "Bytes", "CodeExecution", "CodeExecutionError", "CodeExecutionResult", "Immure",
           "ImmureError", "Jobs", "Map", "SerializationError", "Session", "Set"]
