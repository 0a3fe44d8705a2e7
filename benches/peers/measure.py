"""Fills three MCP servers with the same items, measures them alternately, and prints a table.

Started by `run`, which installs the servers: measure.py BINARY PLACE CALLS
"""

import json
import os
import pathlib
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ITEMS = 1000
# Each topic occurs in ten items, so every search has ten results to find.
ITEMS_PER_TOPIC = 10
ITEMS_PER_STORY = 50
STARTS = 11
END_SECONDS = 5
SYLLABLES = "ba co di fu ga he jo ka li mo nu pe ra so ti va we xi yo zu".split()
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "peers", "version": "1"},
}


def generate_items(count, seed):
    """Titles and descriptions of invented words, the same in every run."""
    chance = random.Random(seed)
    words = ["".join(chance.sample(SYLLABLES, 3)) for _ in range(800)]
    items = []
    for number in range(count):
        topic = f"topic{number // ITEMS_PER_TOPIC:03}"
        title = f"Item {number:04} of {topic} {' '.join(chance.sample(words, 4))}"
        sentences = (" ".join(chance.sample(words, 12)).capitalize() + "." for _ in range(5))
        items.append({"title": title, "topic": topic, "text": " ".join(sentences)})
    return items


def processes():
    """Parent and start time of every process."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue  # It ended in the meantime.
            fields = stat.rpartition(")")[2].split()
            found[int(folder.name)] = int(fields[1]), int(fields[19])
    return found


def process_tree(root):
    """The ids of a process and its descendants."""
    running = processes()
    tree = [root]
    for member in tree:
        tree.extend(pid for pid, (parent, _) in running.items() if parent == member)
    return tree


def resident_mebibytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) / 1024


class Server:
    """A running MCP server and its only client."""

    def __init__(self, peer):
        self.name = peer.name
        start = time.perf_counter()
        self.process = subprocess.Popen(
            peer.command, cwd=peer.folder, env=peer.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0
        self.ask("initialize", HELLO)
        self.start_seconds = time.perf_counter() - start
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, parameters):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == self.number and "method" not in message:
                return message
        sys.exit(f"{self.name} ended without an answer to {method}")

    def call(self, request, expected=""):
        """Seconds until the answer, which must be a success and hold the expected text."""
        tool, arguments = request
        start = time.perf_counter()
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        seconds = time.perf_counter() - start
        result = answer.get("result", {"isError": True})
        if result.get("isError") or expected not in json.dumps(result):
            sys.exit(f"{self.name} answered {tool} with {json.dumps(answer)[:500]}")
        return seconds

    def memory(self):
        """Resident memory in MiB, including child processes."""
        return sum(resident_mebibytes(pid) for pid in process_tree(self.process.pid))

    def end(self):
        """Closes the input, as clients do, and kills by id each process that is left."""
        tree = process_tree(self.process.pid)
        before = processes()
        self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        after = processes()
        for pid in tree:
            # An id with another start time belongs to another process.
            if pid in after and after[pid][1] == before.get(pid, (0, 0))[1]:
                os.kill(pid, signal.SIGKILL)


class Peer:
    """A program under test: how it is started, and its tools for the three operations."""

    name, command = "", []

    def __init__(self, scratch, place):
        self.folder = scratch / self.name
        self.folder.mkdir()
        self.place = place
        home = scratch / "home"
        home.mkdir(exist_ok=True)
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def run(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            sys.exit(f"{command[0]} failed: {done.stderr}")

    def git(self, *arguments):
        identity = ("-c", "user.name=peers", "-c", "user.email=peers@example.org")
        self.run("git", *identity, *arguments)

    def commit(self):
        """The items are in Git before they are measured, as in a real project."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Add the items")

    def prepare(self, server):
        """Creates the parents of the items, where a program has any."""

    def version(self, package):
        manifest = self.place / "node_modules" / package / "package.json"
        return json.loads(manifest.read_text())["version"]


class Reqlore(Peer):
    name = "Reqlore"

    def __init__(self, scratch, place, binary):
        super().__init__(scratch, place)
        self.git("init", "--quiet")
        self.command = [binary, "--root", str(self.folder)]
        version = subprocess.run([binary, "--version"], check=True, capture_output=True, text=True)
        self.title = f"Reqlore {version.stdout.split()[1]}"

    def prepare(self, server):
        server.call(("create_epic", {"title": "Measuring", "priority": 2}))
        for number in range(ITEMS // ITEMS_PER_STORY):
            story = {"epic": "EP-001", "title": f"Story {number + 1}", "priority": 2}
            server.call(("create_user_story", story))

    def create(self, number, item):
        story = number % ITEMS // ITEMS_PER_STORY + 1
        return "create_requirement", {
            "user_story": f"US-{story:03}", "type": "Functional", "priority": 2,
            "title": item["title"], "description": item["text"]}

    def read(self, number, item):
        return "get_item", {"reference": f"REQ-{number + 1:03}"}

    def search(self, topic):
        return "search_global", {"query": topic, "limit": ITEMS_PER_TOPIC}


class BacklogMd(Peer):
    name = "Backlog.md"

    def __init__(self, scratch, place, _):
        super().__init__(scratch, place)
        self.git("init", "--quiet")
        program = str(place / "node_modules/.bin/backlog")
        self.run(program, "init", "peers", "--defaults", "--integration-mode", "none")
        self.command = [program, "mcp", "start"]
        self.title = f"Backlog.md {self.version('backlog.md')}"

    def create(self, number, item):
        return "task_create", {"title": item["title"], "description": item["text"]}

    def read(self, number, item):
        return "task_view", {"id": f"task-{number + 1}"}

    def search(self, topic):
        return "task_search", {"query": topic, "limit": ITEMS_PER_TOPIC}


class MemoryServer(Peer):
    name = "memory server"

    def __init__(self, scratch, place, _):
        super().__init__(scratch, place)
        self.git("init", "--quiet")
        self.environment["MEMORY_FILE_PATH"] = str(self.folder / "memory.jsonl")
        self.command = [str(place / "node_modules/.bin/mcp-server-memory")]
        self.title = f"memory server {self.version('@modelcontextprotocol/server-memory')}"

    def create(self, number, item):
        entity = {"name": item["title"], "entityType": "item", "observations": [item["text"]]}
        return "create_entities", {"entities": [entity]}

    def read(self, number, item):
        return "open_nodes", {"names": [item["title"]]}

    def search(self, topic):
        return "search_nodes", {"query": topic}


def rounds(servers, count):
    """The servers in a different order each time, so that none profits from its place."""
    for number in range(count):
        at = number % len(servers)
        yield number, servers[at:] + servers[:at]


def measure_calls(peers, servers, items, additions, calls):
    """Median milliseconds per operation and peer."""
    chance = random.Random(2)
    times = {name: {peer.name: [] for peer in peers} for name in ("read", "search", "create")}
    pairs = list(zip(peers, servers))
    for _, order in rounds(pairs, calls):
        number = chance.randrange(ITEMS)
        item = items[number]
        for peer, server in order:
            seconds = server.call(peer.read(number, item), item["title"])
            times["read"][peer.name].append(seconds)
    for _, order in rounds(pairs, calls):
        topic = chance.choice(items)["topic"]
        for peer, server in order:
            times["search"][peer.name].append(server.call(peer.search(topic), topic))
    for number, order in rounds(pairs, calls):
        for peer, server in order:
            seconds = server.call(peer.create(ITEMS + number, additions[number]))
            times["create"][peer.name].append(seconds)
    return {name: medians(row) for name, row in times.items()}


def measure_starts(peers, items):
    """Median milliseconds from the start to the first answer, and to the first item read."""
    first, item = ({peer.name: [] for peer in peers} for _ in range(2))
    for number, order in rounds(peers, STARTS):
        for peer in order:
            start = time.perf_counter()
            server = Server(peer)
            server.call(peer.read(number, items[number]), items[number]["title"])
            item[peer.name].append(time.perf_counter() - start)
            first[peer.name].append(server.start_seconds)
            server.end()
    return medians(first), medians(item)


def medians(row):
    return {name: statistics.median(seconds) * 1000 for name, seconds in row.items()}


def show(value):
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def table(peers, rows):
    lines = [f"| {ITEMS:,} items | " + " | ".join(peer.title for peer in peers) + " |"]
    lines.append("|---" * (len(peers) + 1) + "|")
    for name, unit, row in rows:
        ours = row[peers[0].name]
        cells = [f"{show(ours)} {unit}"]
        for peer in peers[1:]:
            theirs = row[peer.name]
            cells.append(f"{show(theirs)} {unit} ({show(theirs / ours)}×)")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    binary, place, calls = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    items, additions = generate_items(ITEMS, 1), generate_items(calls, 3)
    running = []
    with tempfile.TemporaryDirectory(dir=place, prefix="run-") as scratch:
        try:
            scratch = pathlib.Path(scratch)
            peers = [kind(scratch, place, binary) for kind in (Reqlore, BacklogMd, MemoryServer)]
            for peer in peers:
                print(f"filling {peer.title}", file=sys.stderr, flush=True)
                running.append(server := Server(peer))
                peer.prepare(server)
                for number, item in enumerate(items):
                    server.call(peer.create(number, item))
                running.pop().end()
                peer.commit()
            if os.getloadavg()[0] > os.cpu_count():
                print("the machine is busy, so all figures will be too high", file=sys.stderr)
            print("measuring", file=sys.stderr, flush=True)
            first, item = measure_starts(peers, items)
            for peer in peers:
                running.append(Server(peer))
            times = measure_calls(peers, running, items, additions, calls)
            memory = {server.name: server.memory() for server in running}
        finally:
            for server in running:
                server.end()
    print(table(peers, [
        ("read one item", "ms", times["read"]),
        ("search, ten results", "ms", times["search"]),
        ("create one item", "ms", times["create"]),
        ("start to the first answer", "ms", first),
        ("start to the first item read", "ms", item),
        ("memory after these calls", "MiB", memory),
    ]))
    size = pathlib.Path(binary).stat().st_size / 1e6
    print(f"\nMedians of {calls} calls over MCP on standard input and output, and of {STARTS} "
          "starts, in alternating order. Reqlore syncs each write to disk before it answers, the "
          "others do not. Memory is the resident set including child processes. "
          f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, "
          f"Reqlore binary of {size:.0f} MB.")


if __name__ == "__main__":
    main()
