"""Makes tasks with known answers from the archive of a repository that uses OpenSpec.

A task is the title of a change and the start of its reason. The specifications are those before the
change was proposed. The answer is the set of requirements that the change modified, removed or
renamed.
"""

import dataclasses
import re
import subprocess

ARCHIVE = "openspec/changes/archive"
# Characters of the reason that belong to a task.
REASON_CHARS = 500
# A smaller project fits into one answer, so nothing must be chosen.
MIN_PROJECT_BYTES = 8_000
HEADING = re.compile(r"^### Requirement:\s*(.+?)\s*$", re.M)


@dataclasses.dataclass(frozen=True)
class Requirement:
    capability: str
    title: str
    text: str


@dataclasses.dataclass
class Task:
    name: str
    text: str
    paths: list
    specs: str
    requirements: list
    touched: set


class Clone:
    def __init__(self, path):
        self.path = path

    def git(self, *arguments):
        result = subprocess.run(["git", "-C", self.path, *arguments], capture_output=True)
        return result.stdout.decode("utf-8", "replace")

    def show(self, commit, path):
        return self.git("show", f"{commit}:{path}")

    def files(self, commit, folder):
        return self.git("ls-tree", "-r", "--name-only", commit, "--", folder).splitlines()


def parse_requirements(capability, text):
    """Returns the requirements of a specification. Their text ends at the next heading of level 2 or
    3."""
    requirements = []
    for heading in HEADING.finditer(text):
        rest = text[heading.end():]
        end = re.search(r"^##{1,2} ", rest, re.M)
        body = rest[:end.start()] if end else rest
        requirements.append(Requirement(capability, heading[1].strip("` "), body.strip()))
    return requirements


def read_specs(clone, commit):
    requirements = []
    for path in clone.files(commit, "openspec/specs"):
        if path.endswith("/spec.md"):
            capability = path.split("/")[-2]
            requirements += parse_requirements(capability, clone.show(commit, path))
    return requirements


def touched_by(capability, delta):
    """Returns the old titles of the requirements that a delta touches."""
    touched = set()
    for part in re.split(r"^## ", delta, flags=re.M)[1:]:
        heading = part.split("\n", 1)[0].upper()
        if heading.startswith(("MODIFIED", "REMOVED")):
            touched |= {(capability, title.strip("` ")) for title in HEADING.findall(part)}
        elif heading.startswith("RENAMED"):
            old = re.findall(r"FROM:\s*`?(?:### Requirement:)?\s*(.+?)`?\s*$", part, re.M)
            touched |= {(capability, title.strip("` ")) for title in old}
    return touched


def task_text(name, proposal):
    """Returns the title and the start of the reason."""
    title = re.search(r"^# (?:Change:|Proposal:)?\s*(.+)$", proposal, re.M)
    title = title[1] if title else name.replace("-", " ")
    reason = re.search(r"^## (?:Why|Summary|Problem)[^\n]*\n(.*?)(?=^## |\Z)", proposal, re.M | re.S)
    reason = " ".join(reason[1].split()) if reason else ""
    if len(reason) > REASON_CHARS:
        reason = reason[:REASON_CHARS].rsplit(" ", 1)[0]
    return f"{title}. {reason}".strip(), bool(reason)


def read_tasks(path, head="HEAD"):
    """Returns the tasks of a clone, oldest first."""
    clone, tasks = Clone(path), []
    archived = {}
    for file in clone.files(head, ARCHIVE):
        folder, _, rest = file[len(ARCHIVE) + 1:].partition("/")
        archived.setdefault(folder, []).append(rest)
    for folder, files in sorted(archived.items()):
        name = re.sub(r"^\d{4}-\d\d-\d\d-", "", folder)
        proposal = clone.show(head, f"{ARCHIVE}/{folder}/proposal.md")
        text, has_reason = task_text(name, proposal)
        folders = [f"{ARCHIVE}/{folder}", f"openspec/changes/{name}"]
        commits = clone.git("log", "--format=%H", "--no-renames", head, "--", *folders).split()
        if not has_reason or not commits:
            continue
        before = clone.git("rev-parse", f"{commits[-1]}^").strip()
        specs = clone.git("rev-parse", f"{before}:openspec/specs").strip()
        requirements = read_specs(clone, before)
        if sum(len(r.title) + len(r.text) for r in requirements) < MIN_PROJECT_BYTES:
            continue
        touched = set()
        for file in files:
            if file.startswith("specs/") and file.endswith("/spec.md"):
                delta = clone.show(head, f"{ARCHIVE}/{folder}/{file}")
                touched |= touched_by(file.split("/")[-2], delta)
        known = {(r.capability, r.title) for r in requirements}
        paths = clone.git("show", "--format=", "--name-only", *commits).split("\n")
        paths = sorted({path for path in paths if path and not path.startswith("openspec/")})
        tasks.append(Task(folder, text, paths[:100], specs, requirements, touched & known))
    return tasks
