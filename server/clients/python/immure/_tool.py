"""What the adapters have in common: what a model is told of the tool and of a result."""

from __future__ import annotations

from typing import Any

NAME = "execute_code"
DESCRIPTION = ("Execute code in a sandboxed environment without network and return the output. "
               "Use this tool when you need to run calculations, test code snippets, or verify logic. Print what you want to see.")
TEXT_MAX = 10000


def text_of(reply: dict[str, Any]) -> str:
    """stdout, then stderr, cut; after a timeout a sentence, as for a program that waits for an approval; never empty."""
    if "approval_id" in reply:
        return f"Error: Not run yet: the program needs an approval, which is asked for ({reply['approval_id']})"
    text = reply["stdout"] + reply["stderr"]
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + "\n... [output truncated]"
    if reply["status"] not in ("success", "execution_error"):
        why = reply.get("error") or reply["status"]
        text += ("\n" if text and not text.endswith("\n") else "") + f"Error: {why[:1].upper()}{why[1:]}"
    return text or "(No output)"
