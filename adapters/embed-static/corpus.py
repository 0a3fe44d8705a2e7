#!/usr/bin/env python3
"""Gathers the short English texts that `distil.py` learns from.

  corpus.py OUT.txt PACKAGES WORDNET

From a list of Debian's package descriptions (Translation-en), from the manual pages of this machine
and from WordNet's folder with its data.* files (definitions and examples); so many of each.
"""

import glob
import gzip
import os
import re
import sys
import zlib


def paragraphs_of_packages(path):
    for entry in open(path, encoding="utf-8").read().split("\n\n"):
        at = re.search(r"^Description-en: (.*(?:\n .*)*)", entry, re.M)
        if at:
            title, _, body = at.group(1).partition("\n")
            yield title
            yield from re.sub(r"^ ", "", body, flags=re.M).split("\n.\n")


def paragraphs_of_manuals():
    for path in sorted(glob.glob("/usr/share/man/man*/*.gz")):
        if os.path.basename(path).startswith("gcloud"):
            continue  # half of all pages where it is installed, and all alike
        page = gzip.open(path, "rt", encoding="utf-8", errors="ignore").read(200_000)
        page = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^]", "", page).replace("\\-", "-")
        for text in re.split(r"^[.'].*$|^\s*$", page, flags=re.M):
            if "\\" not in text and "{" not in text:
                yield text


def definitions(wordnet):
    for path in sorted(glob.glob(os.path.join(wordnet, "data.*"))):
        for line in open(path, encoding="utf-8"):
            if " | " in line and not line.startswith("  "):
                about, _, gloss = line.partition(" | ")
                word = about.split()[4].replace("_", " ")
                meaning, _, example = gloss.partition('; "')
                yield f"{word}: {meaning}"
                yield example.strip(' "\n')


def corpus(out, packages, wordnet):
    texts = {}
    shares = [(paragraphs_of_packages(packages), 65_000), (paragraphs_of_manuals(), 20_000),
              (definitions(wordnet), 30_000)]
    for source, share in shares:
        found = {}
        for text in source:
            text = " ".join(text.split())
            if 15 <= len(text) <= 500 and text.isascii() and text.count(" ") >= 2:
                found.setdefault(zlib.crc32(text.encode()), text)
        print(len(found), "found,", share, "taken")
        texts.update((k, found[k]) for k in sorted(found)[:share])
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(texts[k] + "\n" for k in sorted(texts))


if __name__ == "__main__":
    corpus(*sys.argv[1:])
