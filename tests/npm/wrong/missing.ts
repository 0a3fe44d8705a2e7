import type { SearchDocsArguments } from 'reqlore/tools';

export const search: SearchDocsArguments = { docset: 'react', keywords: ['useEffect'] };
