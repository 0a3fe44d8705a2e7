// Prints the number of o200k tokens of each text of a JSON list on standard input.

import { readFileSync } from 'node:fs';

import { encode } from 'gpt-tokenizer';

const texts = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
