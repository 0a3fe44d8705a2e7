// Assertions on answers, with messages for failed checks.

import { isDeepStrictEqual } from 'node:util';

export class Mismatch extends Error {
  constructor(what, actual, wanted) {
    super(`${what}: got ${JSON.stringify(actual)}, expected ${wanted}`);
  }
}

export function expect(what, actual, wanted) {
  if (!isDeepStrictEqual(actual, wanted)) {
    throw new Mismatch(what, actual, JSON.stringify(wanted));
  }
}

export function expectMatch(what, actual, pattern) {
  if (typeof actual !== 'string' || !pattern.test(actual)) {
    throw new Mismatch(what, actual, `a text like ${pattern}`);
  }
}

/** The text of the only block. */
function textOf(result) {
  expect('types of content', result.content.map((block) => block.type), ['text']);
  return result.content[0].text;
}

/** Compares the text before the notes, and these keys of the data. A note must match `hint`. */
export function expectAnswer(result, text, data, hint = null) {
  expect('isError', result.isError ?? false, false);
  const [body, notes] = textOf(result).split('\n\nNote: ');
  expect('text', body, text);
  if (hint) expectMatch('notes', notes, hint);
  const found = Object.keys(data).map((key) => [key, result.structuredContent[key]]);
  expect('structuredContent', Object.fromEntries(found), data);
}

export function expectToolError(result, pattern, kind, code, field, hint = null) {
  expect('isError', result.isError, true);
  let message = textOf(result);
  if (hint) {
    const end = message.lastIndexOf('\n');
    expectMatch('hint', message.slice(end + 1), hint);
    message = message.slice(0, end);
  }
  expectMatch('text', message, pattern);
  expect('structuredContent', result.structuredContent, undefined);
  const error = result._meta['reqlore/error'];
  const named = { kind: error.kind, code: error.code, field: error.field, message: error.message };
  expect('reqlore/error', named, { kind, code, field, message });
}

export function versionOf(result) {
  const { version } = result.structuredContent;
  expectMatch('version', version, /^[0-9a-f]{16}$/);
  return version;
}

export async function refused(asking) {
  const answer = await asking.catch((error) => ({ error }));
  if (!answer.error) throw new Mismatch('error', answer, 'one');
  return answer.error;
}
