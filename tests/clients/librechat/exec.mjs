// exec.mjs KEY, with LIBRECHAT_CODE_BASEURL: what LibreChat's own tools make of the server, as one JSON object.

import { AIMessage } from '@langchain/core/messages';
import { Constants, ToolNode, createBashExecutionTool, createCodeExecutionTool, fetchSessionFiles } from '@librechat/agents';

const base = process.env.LIBRECHAT_CODE_BASEURL, authHeaders = {'X-API-Key': process.argv[2]};

/** A file as its server uploads one that a user has attached. */
async function upload(name, text) {
  const form = new FormData();
  form.append('entity_id', 'agent');
  form.append('file', new Blob([text]), name);
  const reply = await fetch(`${base}/upload`, {method: 'POST', headers: authHeaders, body: form});
  const result = await reply.json();
  if (result.message !== 'success') throw new Error(JSON.stringify(result));
  return {id: result.files[0].fileId, resource_id: 'user', storage_session_id: result.session_id, name, kind: 'user'};
}

async function failure(promise) {
  return promise.then(() => null, (error) => error.message);
}

const tool = createCodeExecutionTool({user_id: 'user', authHeaders: async () => authHeaders});
const first = await tool.invoke({lang: 'py', code: 'print("Hello, World!")'});
const languages = {
  js: await tool.invoke({lang: 'js', code: 'console.log(6 * 7, process.argv.slice(2))', args: ['a']}),
  bash: await tool.invoke({lang: 'bash', code: 'echo "$1" > /mnt/data/x; cat x', args: ['a b']}),
};
const bash = await createBashExecutionTool({authHeaders}).invoke({command: 'echo from bash'}).catch((error) => error.message);
const refused = await failure(tool.invoke({lang: 'f90', code: 'end'}));
const unauthorized = await failure(createCodeExecutionTool({authHeaders: {'X-API-Key': 'wrong'}}).invoke({lang: 'py', code: '1'}));

// A conversation: an attached file, then two turns, with files from one to the next.
const attached = await upload('numbers.csv', 'n\n40\n2\n');
const sessions = new Map([[Constants.EXECUTE_CODE, {session_id: attached.storage_session_id, files: [attached], lastUpdated: Date.now()}]]);
const node = new ToolNode({tools: [tool], sessions});
async function turn(id, code) {
  const message = new AIMessage({content: '', tool_calls: [{name: Constants.EXECUTE_CODE, args: {lang: 'py', code}, id, type: 'tool_call'}]});
  const {messages} = await node.invoke({messages: [message]});
  return {content: messages[0].content, artifact: messages[0].artifact};
}
const turns = [
  await turn('call_1', 'import csv\ntotal = sum(int(row["n"]) for row in csv.DictReader(open("/mnt/data/numbers.csv")))\n'
    + 'open("/mnt/data/total.txt", "w").write(str(total)); print(total)'),
  await turn('call_2', 'print(int(open("/mnt/data/total.txt").read()) + len(open("numbers.csv").readlines()))'),
];
const [file] = turns[0].artifact.files;
const download = await fetch(`${base}/download/${file.storage_session_id}/${file.id}?kind=user&id=user`, {headers: authHeaders});
const listed = await fetchSessionFiles(base, file.storage_session_id, {kind: 'user', id: 'user'}, authHeaders);
console.log(JSON.stringify({first, languages, bash, refused, unauthorized, turns, downloaded: await download.text(), listed, file, attached}));
