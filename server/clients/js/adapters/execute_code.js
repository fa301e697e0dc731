// What the adapters have in common: the tool's name, its arguments, and what a model is told.

export const name = 'execute_code';

export const description = 'Runs a program in a fresh sandbox without network and gives what it printed. Print what you want to see.';

export const parameters = (runtimes = ['python']) => ({
  type: 'object',
  properties: {
    language: {type: 'string', enum: runtimes, description: 'What the program is written in.'},
    code: {type: 'string', description: 'The whole program.'},
  },
  required: ['language', 'code'],
  additionalProperties: false,
});

export async function run(client, {language, code}, {signal, request, tools} = {}) {
  const reply = await client.execute({...request, language, code}, {signal, tools});
  if (reply.approval_id) return `Error: not run yet: the program needs an approval, which is asked for (${reply.approval_id})`;
  const parts = [reply.stdout, reply.stderr, reply.output && `Result: ${reply.output}`, reply.status !== 'success' && `Error: ${reply.error ?? reply.status}`];
  return parts.filter(Boolean).join('\n') || '(No output)';
}
