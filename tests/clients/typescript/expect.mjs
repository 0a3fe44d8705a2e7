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

/** The text of the first block. A second one must be there exactly if it has a `hint`. */
export function textOf(result, hint = null) {
  const types = result.content.map((block) => block.type);
  expect('types of content', types, hint ? ['text', 'text'] : ['text']);
  if (hint) expectMatch('hint', result.content[1].text, hint);
  return result.content[0].text;
}

export function expectAnswer(result, text, data, hint = null) {
  expect('isError', result.isError ?? false, false);
  expect('text', textOf(result, hint), text);
  expect('structuredContent', result.structuredContent, data);
}

export function expectToolError(result, pattern, kind, code, field, hint = null) {
  expect('isError', result.isError, true);
  const message = textOf(result, hint);
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
