// Sends what it gets on to a server, with a token that the sender can't send itself. It changes
// nothing else, so whoever judges the server through it judges the server.

import { Agent, createServer, request } from 'node:http';

/** Starts a proxy before the server at `target`; gives the address that stands for it. */
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
    // Who goes away is gone behind the proxy too: this is how the newest protocol cancels.
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
