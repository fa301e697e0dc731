// LangChain.js: createReactAgent({llm, tools: [executeCode(client)]}).

import {tool} from '@langchain/core/tools';
import {description, name, parameters, run} from './execute_code.js';

/** `runtimes`: the languages to offer; `request`: further fields of each job; `tools`: what its programs may call. */
export const executeCode = (client, {runtimes, request, tools} = {}) => tool(
  (args, config) => run(client, args, {signal: config?.signal, request, tools}),
  {name, description, schema: parameters(runtimes)},
);
