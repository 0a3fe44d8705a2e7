import { start } from 'reqlore';

const client = await start();
const { structuredContent } = await client.callTool({ name: 'list_docsets', arguments: {} });
console.log(structuredContent.docsets.map(({ nickname }) => nickname));
