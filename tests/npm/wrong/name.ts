import { start } from 'reqlore';

const client = await start();
await client.callTool({ name: 'create_saga', arguments: {} });
