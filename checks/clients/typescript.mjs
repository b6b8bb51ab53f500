// The TypeScript SDK as a client: prints one JSON object with the list of tools and the result of each call.
//   node typescript.mjs URL TOKEN legacy|auto '[["tool", {…}], …]' [sse]
// A JSON list in place of the URL is a command that is run and connected over stdio.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [url, token, mode, calls, by] = process.argv.slice(2);

function transport() {
  if (url.startsWith('[')) {
    const [command, ...args] = JSON.parse(url);
    return new StdioClientTransport({ command, args, env: process.env });
  }
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const Transport = by === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(url), { requestInit: { headers } });
}

const client = new Client({ name: 'typescript-sdk', version: '2.4.0' }, { versionNegotiation: { mode } });
await client.connect(transport());
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    results.push({ code: error.code, message: error.message });
  }
}
const names = tools.map((tool) => tool.name);
console.log(JSON.stringify({ version: client.getNegotiatedProtocolVersion(), tools: names, results }));
await client.close();
