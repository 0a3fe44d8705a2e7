// Forwards requests to a server and adds a token, which the suite cannot send. Changes nothing else.

import { Agent, createServer, request } from 'node:http';

/** Starts a proxy for the server at `target` and returns its address. */
export async function proxy(target, token) {
  const { hostname, port, pathname } = new URL(target);
  const agent = new Agent({ keepAlive: true });
  const server = createServer((asked, answer) => {
    const headers = [...asked.rawHeaders, 'Authorization', `Bearer ${token}`];
    const { method, url: path } = asked;
    const sent = request({ agent, hostname, port, path, method, headers, setHost: false });
    sent.on('response', (got) => {
      answer.writeHead(got.statusCode, got.statusMessage, got.rawHeaders);
      got.pipe(answer);
      got.on('error', () => answer.destroy());
    });
    sent.on('error', () => answer.destroy());
    // Forward a disconnect, because the newest protocol cancels this way.
    answer.on('close', () => sent.destroy());
    asked.pipe(sent);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
    agent.destroy();
  };
  return { url: `http://127.0.0.1:${server.address().port}${pathname}`, close };
}
