// Compiles if the declarations are what callers rely on.

import {ApprovalRequired, CodeExecution, CodeExecutionResult, ExecuteReply, Immure, ImmureError} from 'immure';
import {executeCode} from 'immure/langchain';

const client = new Immure({url: 'http://127.0.0.1:1', key: 'k', retryBudgetMs: 1});
const reply: Promise<ExecuteReply | ApprovalRequired> = client.execute({code: '1', files: [{name: 'a', content: 'b'}]}, {tools: {add: ({a}) => a}, onStdout: text => text.length});
export const told = async (): Promise<string> => {
  const it = await reply, job = await client.jobs.start({code: '1'});
  if (it.approval_id !== undefined || job.approval_id !== undefined) return it.execution_id;
  return it.stdout + job.job_id;
};
// @ts-expect-error: there may be no output yet
reply.then(({stdout}) => stdout);
const run: CodeExecution = client.runCode('export default 1', {globals: {x: 1n}, report: value => value, language: 'typescript'});
const result: Promise<CodeExecutionResult> = Promise.resolve(run);
result.then(({status, error}) => (status === 'link_error' ? error?.specifier : run.reports.length));
run.terminate('why');
// @ts-expect-error: no such option
client.runCode('1', {timeout: 1});
// @ts-expect-error: a program is needed
client.execute({stdin: ''});
const files: Promise<Uint8Array> = client.session('s').get('f');
const kernel: Promise<'not_copied' | 'ended' | null> = client.session('s').fork(['a']).then(copied => copied.kernel);
const before: Promise<number | undefined> = client.session('s').diff('a').then(({changed}) => changed[0].size_before);
// @ts-expect-error: more than one name is an array
client.session('s').fork('a');
export {before, executeCode, files, kernel, reply};
export const wrong = (error: unknown): string | null => (error instanceof ImmureError ? error.field : null);
