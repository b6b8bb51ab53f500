// The TypeScript SDK as a client: prints one JSON object with the list and what each call gave.
//   node typescript.mjs URL TOKEN legacy|auto '[["tool", {…}], …]' [sse]
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, token, mode, calls, by] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const client = new Client({ name: 'typescript-sdk', version: '2.4.0' }, { versionNegotiation: { mode } });
const Transport = by === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
await client.connect(new Transport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    results.push({ code: error.code, message: error.message });
  }
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results }));
await client.close();
