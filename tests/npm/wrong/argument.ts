import { start } from 'reqlore';

const client = await start();
await client.callTool({ name: 'create_epic', arguments: { title: 'Fast', priority: 'high' } });
