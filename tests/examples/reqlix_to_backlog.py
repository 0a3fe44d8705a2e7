#!/usr/bin/env python3
"""Reads requirements in reqlix's later format and prints items for `reqlore import`.

    python3 reqlix_to_backlog.py docs/development/requirements > backlog.json

A category (a file) becomes an epic, a chapter (`# Chapter`) a user story, and a requirement
(`## G.G.1: Title`) a requirement that keeps its index in its title. Headings in code blocks are
text. The format has no priorities and types, so all requirements are medium and functional.
"""

import json
import re
import sys
from pathlib import Path

FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
CHAPTER = re.compile(r" {0,3}# +(.*)")
REQUIREMENT = re.compile(r" {0,3}## +([^\s:]+: .*)")


def category(path):
    """Converts one file to an epic."""
    stories, text, fence = [], None, None
    for line in path.read_text(encoding="utf-8-sig").splitlines():
        mark = FENCE.match(line)
        if mark and (fence is None or line.strip().startswith(fence)):
            fence = mark[1] if fence is None else None
        chapter = CHAPTER.match(line) if fence is None else None
        requirement = REQUIREMENT.match(line) if fence is None else None
        if chapter:
            text = []
            stories.append({"title": chapter[1], "description": text, "requirements": []})
        elif requirement and stories:
            text = []
            stories[-1]["requirements"].append({"title": requirement[1], "description": text})
        elif text is not None:
            text.append(line)
    for story in stories:
        for item in [story, *story["requirements"]]:
            item["description"] = "\n".join(item["description"]).strip("\n")
    return {"title": path.stem, "user_stories": stories}


def main():
    items = []

    def add(kind, name, item, parent=None):
        record = {"reference_id": name, "kind": kind, "title": item["title"], "parent": parent}
        items.append({**record, "description": item.get("description", "")})

    for path in sorted(Path(sys.argv[1]).glob("*.md")):
        if path.name == "AGENTS.md":
            continue
        epic = category(path)
        add("epic", path.stem, epic)
        for number, story in enumerate(epic["user_stories"], 1):
            name = f"{path.stem}/{number}"
            add("user_story", name, story, path.stem)
            for requirement in story["requirements"]:
                index = requirement["title"].split(":")[0]
                add("requirement", f"{path.stem}/{index}", requirement, name)
    print(json.dumps({"items": items}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
