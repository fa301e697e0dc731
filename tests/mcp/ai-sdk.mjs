// The MCP client of the AI SDK against an immure server: lists the tools and calls the one, as its agents do.
//
// usage: ai-sdk.mjs URL KEY
//
// Prints the tools' names and what the call came to as one JSON object.
import { createMCPClient } from "@ai-sdk/mcp";

const [url, key] = process.argv.slice(2);
const client = await createMCPClient({ transport: { type: "http", url, headers: { Authorization: `Bearer ${key}` } } });
const tools = await client.tools();
const result = await tools.execute_code.execute({ language: "python", code: "print(6 * 7)" }, { toolCallId: "1", messages: [] });
await client.close();
console.log(JSON.stringify({ tools: Object.keys(tools), result }));
