// Prints the tools that the Vercel AI SDK sends to each provider: {provider: {tool: schema}}.
//
// Usage: convert.mjs COMMAND [ARGUMENT]... (the server, on its standard input and output)

import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogle } from '@ai-sdk/google';
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';

const PROVIDERS = {
  'ai-sdk openai responses': [
    (settings) => createOpenAI(settings).responses('gpt-5.5'),
    ({ tools }) => tools.map((tool) => [tool.name, tool.parameters]),
  ],
  'ai-sdk openai chat': [
    (settings) => createOpenAI(settings).chat('gpt-5.5'),
    ({ tools }) => tools.map((tool) => [tool.function.name, tool.function.parameters]),
  ],
  'ai-sdk anthropic': [
    (settings) => createAnthropic(settings)('claude-sonnet-4-5'),
    ({ tools }) => tools.map((tool) => [tool.name, tool.input_schema]),
  ],
  'ai-sdk google': [
    (settings) => createGoogle(settings)('gemini-2.5-pro'),
    ({ tools }) =>
      tools
        .flatMap((group) => group.functionDeclarations)
        .map((tool) => [tool.name, tool.parametersJsonSchema ?? tool.parameters]),
  ],
};

/** Sends the tools and keeps the schemas of the request, which gets an error as its answer. */
async function converted(tools, [create, schemas]) {
  let kept = [];
  const fetch = async (_, { body }) => {
    kept = schemas(JSON.parse(body));
    return new Response('{}', { status: 400 });
  };
  const model = create({ apiKey: 'unused', fetch });
  await generateText({ model, tools, prompt: 'Hello', maxRetries: 0 }).catch((error) => {
    if (kept.length === 0) throw error;
  });
  return Object.fromEntries(kept);
}

const [command, ...args] = process.argv.slice(2);
const client = await createMCPClient({ transport: new StdioTransport({ command, args }) });
const sent = {};
try {
  const tools = await client.tools();
  for (const [name, provider] of Object.entries(PROVIDERS)) {
    sent[name] = await converted(tools, provider);
  }
} finally {
  await client.close();
}
console.log(JSON.stringify(sent));
