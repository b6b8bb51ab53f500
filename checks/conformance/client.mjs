// A client for the scenarios of the official conformance suite, on the TypeScript SDK.
//   node client.mjs URL
// It lists and uses everything: calls each tool, reads each resource, gets each prompt. The suite's server checks the
// requests. GATELODGE_TOKEN has the token, if one is needed.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url] = process.argv.slice(2);
const { GATELODGE_TOKEN: token, MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_PROTOCOL_VERSION: revision } = process.env;
const wanted = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}').toolCalls;

const client = new Client(
  { name: 'conformance-client', version: '1.0.0' },
  {
    capabilities: { roots: {}, sampling: {}, elicitation: { form: { applyDefaults: true } } },
    versionNegotiation: { mode: revision === '2026-07-28' ? 'auto' : 'legacy' },
  },
);
// Accepts everything. Members with a default are left out; the SDK fills them in.
client.setRequestHandler('elicitation/create', async ({ params }) => {
  const asked = Object.entries(params.requestedSchema.properties);
  const answers = asked.filter(([, schema]) => schema.default === undefined).map(([name]) => [name, true]);
  return { action: 'accept', content: Object.fromEntries(answers) };
});
client.setRequestHandler('roots/list', async () => ({ roots: [] }));
client.setRequestHandler('sampling/createMessage', async () => ({
  role: 'assistant', model: 'none', content: { type: 'text', text: 'Yes.' },
}));

// A server may lack some features; the others are still used.
async function attempt(what, run) {
  try {
    return await run();
  } catch (error) {
    console.error(`${what}: ${error.message}`);
    return {};
  }
}

function argumentsOf(tool, tools) {
  if (tool.name === 'json_schema_echo') {
    return { schema: tools.find(({ name }) => name === 'json_schema_2020_12_tool').inputSchema };
  }
  const kinds = { number: 2, integer: 2, boolean: true, string: 'text' };
  const properties = Object.entries(tool.inputSchema.properties ?? {});
  return Object.fromEntries(properties.filter(([, { type }]) => type in kinds).map(([name, { type }]) => [name, kinds[type]]));
}

const headers = token ? { Authorization: `Bearer ${token}` } : {};
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools = [] } = await attempt('tools/list', () => client.listTools());
const calls = wanted ?? tools.map((tool) => ({ name: tool.name, arguments: argumentsOf(tool, tools) }));
// These servers only have a list.
if (scenario !== 'json-schema-ref-no-deref' && scenario !== 'initialize') {
  for (const call of calls) await attempt(`tools/call ${call.name}`, () => client.callTool(call));
  const { resources = [] } = await attempt('resources/list', () => client.listResources());
  for (const { uri } of resources) await attempt(`resources/read ${uri}`, () => client.readResource({ uri }));
  const { prompts = [] } = await attempt('prompts/list', () => client.listPrompts());
  for (const { name } of prompts) await attempt(`prompts/get ${name}`, () => client.getPrompt({ name }));
}
await client.close();
