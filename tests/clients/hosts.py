"""Hosts of the Model Context Protocol, as their documents connect them to a server over streamable HTTP. Each lists the tools
and calls the one.

usage: hosts.py HOST URL KEY

Prints the tools' names and the text of the answer as one JSON object."""

import asyncio
import json
import sys

ARGUMENTS = {"language": "python", "code": "print(6 * 7)"}


def text_of(result):
    return result.content[0].text


async def langchain(url, headers):
    from langchain_mcp_adapters.client import MultiServerMCPClient
    client = MultiServerMCPClient({"immure": {"transport": "streamable_http", "url": url, "headers": headers}})
    tools = await client.get_tools()
    answer = await tools[0].ainvoke(ARGUMENTS)
    return [tool.name for tool in tools], answer if isinstance(answer, str) else answer[0]["text"]


async def openai_agents(url, headers):
    from agents.mcp import MCPServerStreamableHttp
    async with MCPServerStreamableHttp(params={"url": url, "headers": headers}) as server:
        tools = await server.list_tools()
        return [tool.name for tool in tools], text_of(await server.call_tool(tools[0].name, ARGUMENTS))


async def fastmcp(url, headers):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport
    async with Client(StreamableHttpTransport(url, headers=headers)) as client:
        tools = await client.list_tools()
        return [tool.name for tool in tools], text_of(await client.call_tool(tools[0].name, ARGUMENTS))


async def pydantic_ai(url, headers):
    from pydantic_ai.mcp import MCPToolset
    async with MCPToolset(url, headers=headers) as server:
        tools = await server.list_tools()
        answer = await server.direct_call_tool(tools[0].name, ARGUMENTS)
        return [tool.name for tool in tools], answer if isinstance(answer, str) else answer["stdout"]


HOSTS = {function.__name__: function for function in (langchain, openai_agents, fastmcp, pydantic_ai)}

if __name__ == "__main__":
    host, url, key = sys.argv[1:]
    names, text = asyncio.run(HOSTS[host](url, {"Authorization": f"Bearer {key}"}))
    print(json.dumps({"tools": names, "text": text}))
