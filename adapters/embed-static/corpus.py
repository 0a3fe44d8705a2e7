#!/usr/bin/env python3
"""Collects the short English texts on which `distil.py` is trained.

  corpus.py OUT.txt PACKAGES WORDNET

PACKAGES is a file with Debian's package descriptions (Translation-en), WORDNET the folder with
WordNet's data.* files. The manual pages are those of this machine. Each source has a maximum number
of texts.
"""

import glob
import gzip
import os
import re
import sys
import zlib


def package_paragraphs(path):
    for entry in open(path, encoding="utf-8").read().split("\n\n"):
        match = re.search(r"^Description-en: (.*(?:\n .*)*)", entry, re.M)
        if match:
            title, _, body = match.group(1).partition("\n")
            yield title
            yield from re.sub(r"^ ", "", body, flags=re.M).split("\n.\n")


def manual_paragraphs():
    for path in sorted(glob.glob("/usr/share/man/man*/*.gz")):
        if os.path.basename(path).startswith("gcloud"):
            continue  # half of all pages where it is installed, and very similar
        page = gzip.open(path, "rt", encoding="utf-8", errors="ignore").read(200_000)
        page = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^]", "", page).replace("\\-", "-")
        for text in re.split(r"^[.'].*$|^\s*$", page, flags=re.M):
            if "\\" not in text and "{" not in text:
                yield text


def wordnet_definitions(wordnet):
    for path in sorted(glob.glob(os.path.join(wordnet, "data.*"))):
        for line in open(path, encoding="utf-8"):
            if " | " in line and not line.startswith("  "):
                entry, _, gloss = line.partition(" | ")
                word = entry.split()[4].replace("_", " ")
                meaning, _, example = gloss.partition('; "')
                yield f"{word}: {meaning}"
                yield example.strip(' "\n')


def write_corpus(out, packages, wordnet):
    texts = {}
    limits = [(package_paragraphs(packages), 65_000), (manual_paragraphs(), 20_000),
              (wordnet_definitions(wordnet), 30_000)]
    for source, limit in limits:
        found = {}
        for text in source:
            text = " ".join(text.split())
            # Sorted by checksum below: a reproducible random sample without repeats.
            if 15 <= len(text) <= 500 and text.isascii() and text.count(" ") >= 2:
                found.setdefault(zlib.crc32(text.encode()), text)
        print(len(found), "found,", min(limit, len(found)), "used")
        texts.update((k, found[k]) for k in sorted(found)[:limit])
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(texts[k] + "\n" for k in sorted(texts))


if __name__ == "__main__":
    write_corpus(*sys.argv[1:])
