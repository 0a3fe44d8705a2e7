// Pictures of all pages with the usual project, and of some with hostile texts; see screenshots.

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { Window, launch } from './browser.mjs';
import { hostile, pages, shop } from './fixtures.mjs';
import { Server } from './server.mjs';

const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };
const folder = join(process.env.TEST_ROOT, 'target/screenshots');
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

async function shoot(browser, server, paths, prefix) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    const window = await Window.open(browser, server, { viewport, reducedMotion: 'reduce' });
    const { page } = window;
    const save = async (path) => {
      const name = path.replace(/^(\/p\/default)?\//, '').replace(/[^\w-]+/g, '-');
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        const file = `${prefix}${name}-${size}-${colorScheme}.png`;
        await page.screenshot({ path: join(folder, file), fullPage: true });
      }
    };
    await page.goto('/signin');
    await save('/signin');
    await window.signIn('ann');
    for (const path of paths) {
      const status = (await page.goto(path)).status();
      if (status !== 200) console.log(`${status} ${path}`);
      await save(path);
    }
    for (const problem of window.takeProblems()) console.log(problem);
    await window.close();
  }
}

const browser = await launch();
for (const [prefix, fill] of [['', shop], ['hostile-', hostile]]) {
  const server = await Server.team();
  try {
    const items = await fill((name, args) => server.call(name, args));
    await shoot(browser, server, pages(items), prefix);
  } finally {
    await server.end();
  }
}
await browser.close();
console.log(`pictures: ${folder}`);
