#!/usr/bin/env python3
"""Simulates power cuts with a loop device (run manually, as root).

    tests/power/cut.py BINARY [ROUNDS]

The project is on an ext4 file system in an image file. A server writes there until it is stopped at a
random moment, and the image is copied. The copy lacks everything that the kernel had not yet written
to the device. A new server reads the mounted copy and must find every acknowledged write. The last
line is the control: a writer that does not sync must lose data.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STORAGES = ["fs", "fs in Git", "sqlite", "sled"]


class Server:
    def __init__(self, binary, root, storage):
        self.root = root
        command = [binary, "--root", root, "--storage", storage.split()[0], "--log", "off"]
        environment = {"HOME": "/nonexistent", "REQLORE_CACHE": "off"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def call(self, tool, **arguments):
        arguments |= {"project_root": self.root, "operation_description": "a power cut"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        call["params"] = {"name": tool, "arguments": arguments}
        self.process.stdin.write((json.dumps(call) + "\n").encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["result"]

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait()


class Mounted:
    """An ext4 image file, mounted at a folder."""

    def __init__(self, image, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-o", "loop", image, folder], check=True)

    def __enter__(self):
        return os.path.join(self.folder, "project")

    def __exit__(self, *_):
        subprocess.run(["umount", self.folder], check=True)


def write_randomly(server):
    """Writes for a random time. Returns the number of writes and the acknowledged texts by section."""
    deadline = time.monotonic() + random.uniform(0.05, 1.5)
    acknowledged = {}
    number = 0
    while time.monotonic() < deadline:
        number += 1
        section = f"s{random.randrange(20)}"
        text = f"write {number} " + "x" * random.randrange(100)
        answer = server.call("reqlix_set_requirements", section=section, index="1", text=text)
        assert not answer.get("isError"), answer
        acknowledged[section] = text
    return number, acknowledged


def cut(binary, storage, place):
    """Simulates one power cut. Returns the number of acknowledged writes and the lost ones."""
    image, copy = os.path.join(place, "image"), os.path.join(place, "copy")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with Mounted(image, os.path.join(place, "before")) as project:
        os.mkdir(project)
        if storage == "fs in Git":
            os.mkdir(os.path.join(project, ".git"))
        os.sync()
        if storage == "no sync":
            acknowledged = {}
            for number in range(50):
                with open(os.path.join(project, f"{number}"), "w") as file:
                    file.write("acknowledged")
                acknowledged[str(number)] = "acknowledged"
            number = 50
            shutil.copyfile(image, copy)
        else:
            server = Server(binary, project, storage)
            number, acknowledged = write_randomly(server)
            server.process.send_signal(signal.SIGSTOP)
            shutil.copyfile(image, copy)
            server.end()
    with Mounted(copy, os.path.join(place, "after")) as project:
        if storage == "no sync":
            kept = set(os.listdir(project))
            return number, [name for name in acknowledged if name not in kept]
        server = Server(binary, project, storage)
        lost = []
        for section, text in acknowledged.items():
            answer = server.call("reqlix_get_requirements", section=section)
            rule = answer["content"][0]["text"].partition("\n\nNote: ")[0]
            if " ".join(rule.split()) != f"**1.** {text.strip()}":
                lost.append((section, text, answer["content"][0]["text"]))
        server.end(signal.SIGTERM)
        return number, lost


def main():
    binary = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    failed = False
    for storage in [*STORAGES, "no sync"]:
        writes, lost = 0, []
        for _ in range(rounds if storage != "no sync" else 1):
            with tempfile.TemporaryDirectory() as place:
                number, gone = cut(binary, storage, place)
            writes += number
            lost += gone
        print(f"{storage}: {writes} acknowledged writes, {len(lost)} lost", flush=True)
        for what in lost[:3] if storage != "no sync" else []:
            print("  ", what)
        failed |= (not lost) if storage == "no sync" else bool(lost)
    sys.exit(failed)


if __name__ == "__main__":
    main()
