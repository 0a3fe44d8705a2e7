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

export function textOf(result) {
  expect('types of content', result.content.map((block) => block.type), ['text']);
  return result.content[0].text;
}

export function expectAnswer(result, text, data) {
  expect('isError', result.isError ?? false, false);
  expect('text', textOf(result), text);
  expect('structuredContent', result.structuredContent, data);
}

export function expectToolError(result, pattern, kind, code, field) {
  expect('isError', result.isError, true);
  expectMatch('text', textOf(result), pattern);
  expect('structuredContent', result.structuredContent, undefined);
  const error = result._meta['reqlore/error'];
  const named = { kind: error.kind, code: error.code, field: error.field, message: error.message };
  expect('reqlore/error', named, { kind, code, field, message: textOf(result) });
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
