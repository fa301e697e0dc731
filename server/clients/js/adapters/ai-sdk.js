// The AI SDK: generateText({model, prompt, tools: {execute_code: executeCode(client)}}).

import {jsonSchema, tool} from 'ai';
import {description, parameters, run} from './execute_code.js';

/** `runtimes`: the languages to offer; `request`: further fields of each job; `tools`: what its programs may call. */
export const executeCode = (client, {runtimes, request, tools} = {}) => tool({
  description,
  inputSchema: jsonSchema(parameters(runtimes)),
  execute: (args, {abortSignal} = {}) => run(client, args, {signal: abortSignal, request, tools}),
});
