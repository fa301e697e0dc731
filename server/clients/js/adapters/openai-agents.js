// The Agents SDK: new Agent({name, tools: [executeCode(client)]}).

import {tool} from '@openai/agents';
import {description, name, parameters, run} from './execute_code.js';

/** `runtimes`: the languages to offer; `request`: further fields of each job; `tools`: what its programs may call. */
export const executeCode = (client, {runtimes, request, tools} = {}) => tool({
  name,
  description,
  parameters: parameters(runtimes),
  strict: true,
  execute: args => run(client, args, {request, tools}),
});
