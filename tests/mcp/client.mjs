// The official clients of the Model Context Protocol against an immure server: v1, v2 for the revision without
// initialize alone (pinned), and v2 that finds out (auto).
//
// usage: client.mjs v1|pinned|auto SCENARIO http URL KEY
//        client.mjs v1|pinned|auto SCENARIO stdio COMMAND [ARGUMENT...]
//
// Prints what the scenario found as one JSON object; what it means is judged by test_sdk.py.
const [kind, scenario, way, ...rest] = process.argv.slice(2);
const isV1 = kind === "v1";
const { Client } = await import(isV1 ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StdioClientTransport } = await import(isV1 ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio");
const { StreamableHTTPClientTransport } = await import(isV1 ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client");

function transport() {
  if (way === "http") {
    const [url, key] = rest;
    return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
  }
  return new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "inherit" });
}

const call = (client, params, options) => (isV1 ? client.callTool(params, undefined, options) : client.callTool(params, options));
const run = (client, code, more = {}, options = {}) =>
  call(client, { name: "execute_code", arguments: { language: "python", code, ...more } }, options);

// A call that never ends by itself, and a way to wait until its program runs: it makes a file of its workspace.
async function runs(client, session_id) {
  for (;;) {
    const seen = await run(client, "import os; print(os.path.exists('begun'))", { session_id });
    if (seen.content[0].text === "True\n") return;
  }
}

const scenarios = {
  async list(client) {
    const { tools } = await client.listTools();
    if (isV1) await client.ping();
    return { tools, server: client.getServerVersion(), capabilities: client.getServerCapabilities(),
             instructions: client.getInstructions(), version: isV1 ? null : client.getNegotiatedProtocolVersion() };
  },
  async success(client) {
    return await run(client, "print(input()[::-1])", { stdin: "stressed" });
  },
  async error(client) {
    return await run(client, "print('so far'); 1/0");
  },
  async timeout(client) {
    return await run(client, "while True: pass", { timeout: 1 });
  },
  async language(client) {
    return await run(client, "1", { language: "cobol" });
  },
  async tool(client) {
    return await call(client, { name: "rm", arguments: {} }).then(
      (result) => ({ result }), (error) => ({ code: error.code, message: error.message }));
  },
  async files(client) {
    return await run(client, "open('a.csv', 'w').write('1,2')\nset_result({'rows': 1}, files=['a.csv'])");
  },
  async session(client) {
    await run(client, "open('kept', 'w').write('still here')", { session_id: "sdk" });
    return await run(client, "print(open('kept').read())", { session_id: "sdk" });
  },
  async cancel(client) {
    const controller = new AbortController();
    const session_id = `cancel-${process.pid}`;
    const pending = run(client, "open('begun', 'w')\nwhile True: pass", { session_id }, { signal: controller.signal }).then(
      (result) => ({ result }), (error) => ({ message: String(error.message ?? error) }));
    await runs(client, session_id);
    controller.abort("changed my mind");
    return { ...(await pending), after: await run(client, "print('goes on')") };
  },
  async progress(client) {
    const seen = [];
    const result = await run(client, "import time; time.sleep(1); print('done')", {},
                             { onprogress: (progress) => seen.push(progress), timeout: 30000, resetTimeoutOnProgress: true });
    return { seen, result };
  },
  async many(client) {
    const calls = Array.from({ length: 12 }, (_, i) => run(client, `print(${i} ** 2)`));
    return { texts: (await Promise.all(calls)).map((result) => result.content[0].text) };
  },
};

const modes = { v1: {}, pinned: { versionNegotiation: { mode: { pin: "2026-07-28" } } }, auto: { versionNegotiation: { mode: "auto" } } };
const client = new Client({ name: "immure-tests", version: "1" }, modes[kind]);
const link = transport();
await client.connect(link);
const found = await scenarios[scenario](client);
if (way === "http" && isV1) await link.terminateSession();
await client.close();
console.log(JSON.stringify(found));
