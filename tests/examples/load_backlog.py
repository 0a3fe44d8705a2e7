#!/usr/bin/env python3
"""Loads a backlog from JSON through Reqlore's tools, over the pipe.

    python3 load_backlog.py BACKLOG.json -- reqlore --root DIR

The file is a list of epics, each with `user_stories`, each with `requirements`; every item has a
`title` and a `description`, a requirement also `type` and `priority` (1 to 4). The command after `--`
starts the server. The script needs only Python's standard library.

Each response is one line. A line without an `id` is a notification, not a response.
"""

import argparse
import json
import subprocess
import sys


class Server:
    """A Reqlore server and the pipes to it."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.requests = 0
        self.ask("initialize", {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "load_backlog", "version": "1"},
            # A program reads data; a model gets text.
            "_meta": {"reqlore/answers": "both"},
        })
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the server ended; its messages are above")
            answer = json.loads(line)
            if answer.get("id") == self.requests:
                break
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            sys.exit(f"{tool} {arguments}: {result['content'][0]['text']}")
        return result["structuredContent"]

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def load(server, epics):
    """Creates every item and returns the references in the order of the file."""
    references = []

    def make(tool, item, **arguments):
        made = server.call(
            tool,
            title=item["title"],
            description=item.get("description") or "",
            priority=item.get("priority", 3),
            **arguments,
        )
        references.append(made["reference_id"])
        return made["reference_id"]

    for epic in epics:
        epic_reference = make("create_epic", epic)
        for story in epic.get("user_stories", []):
            story_reference = make("create_user_story", story, epic=epic_reference)
            for requirement in story.get("requirements", []):
                make(
                    "create_requirement",
                    requirement,
                    user_story=story_reference,
                    type=requirement.get("type", "Functional"),
                )
    return references


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backlog")
    parser.add_argument("command", nargs="+", help="how to start the server, behind --")
    given = parser.parse_args()
    with open(given.backlog, encoding="utf-8") as file:
        epics = json.load(file)
    server = Server(given.command)
    references = load(server, epics)
    twice = len(references) - len(set(references))
    code = server.close()
    print(json.dumps({"items": len(references), "twice": twice, "last": references[-1:]}))
    sys.exit(1 if twice or code else 0)


if __name__ == "__main__":
    main()
