// adapters.mjs URL KEY: each framework's own tool, made by its adapter and called as the framework calls it.

import {Immure} from 'immure';
import {executeCode as forAiSdk} from 'immure/ai-sdk';
import {executeCode as forLangChain} from 'immure/langchain';
import {executeCode as forAgents} from 'immure/openai-agents';
import {MockLanguageModelV3} from 'ai/test';
import {generateText, stepCountIs} from 'ai';
import {RunContext} from '@openai/agents';

const [url, key] = process.argv.slice(2);
const client = new Immure({url, key});
const args = {language: 'python', code: 'print(6 * call_tool("six"))'};
const options = {runtimes: ['python', 'node'], request: {timeout: 20}, tools: {six: () => 6}};

/** A model that calls the tool and says what it was told. */
const model = new MockLanguageModelV3({
  doGenerate: async ({prompt, tools}) => {
    const last = prompt.at(-1), usage = {inputTokens: {total: 1}, outputTokens: {total: 1}};
    return last.role === 'tool'
      ? {content: [{type: 'text', text: last.content[0].output.value}], finishReason: {unified: 'stop'}, usage, warnings: []}
      : {content: [{type: 'tool-call', toolCallId: '1', toolName: tools[0].name, input: JSON.stringify(args)}],
        finishReason: {unified: 'tool-calls'}, usage, warnings: []};
  },
});
const {text} = await generateText({model, prompt: 'x', tools: {execute_code: forAiSdk(client, options)}, stopWhen: stepCountIs(3)});
const langChain = forLangChain(client, options), agents = forAgents(client, options);
console.log(JSON.stringify({
  ai: text,
  langchain: await langChain.invoke(args),
  agents: await agents.invoke(new RunContext(), JSON.stringify(args)),
  failed: await langChain.invoke({language: 'python', code: 'import sys; sys.exit("no")'}),
  names: [langChain.name, agents.name],
}));
