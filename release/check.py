"""Verifies every artifact of a release.

Usage: check.py OUT   (see .ci/release for the environment)

Prints one line per artifact; exits with 1 at the first invalid one.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from time import gmtime
from typing import Any

from ask import served
from bill import linked
from files import archive_of, digest_of, program_of, target_rows
from image import PROCESSORS
from smoke import RUNNERS, how, prepare_wine
from wheel import check_wheel

ROOT = Path(__file__).resolve().parent.parent
VERSION = os.environ["RELEASE_VERSION"]
HOST = os.environ["RELEASE_HOST"]
BUNDLER = Path(os.environ["RELEASE_BUNDLER"])
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
PLATFORMS = json.loads((ROOT / "npm/reqlore/platforms.json").read_text())
PAPERS = {"README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"}


def expect(truth: object, complaint: str) -> None:
    if not truth:
        sys.exit(f"FAILED {complaint}")


def main(out: Path) -> None:
    files = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    sums(out, files)
    kinds = {".gz": archive, ".zip": archive, ".mcpb": bundle, ".tgz": package}
    kinds |= {".whl": wheel, ".tar": image, ".rb": formula, "reqlore.json": scoop}
    for path in files:
        if check := kinds.get(path.suffix) or kinds.get(path.name):
            check(path)
            print(f"ok {path.name}")
    expect(binaries(out), "no archive with a binary was found")
    registry_entry(out)
    print("ok server.json")
    bill(out / f"reqlore-{VERSION}.cdx.json")
    print(f"ok reqlore-{VERSION}.cdx.json")


def sums(out: Path, files: list[Path]) -> None:
    lines = (out / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    expect(set(listed) == {path.name for path in files}, "SHA256SUMS doesn't list every file")
    for path in files:
        expect(listed[path.name] == digest_of(path), f"{path.name} does not match SHA256SUMS")
    print(f"ok SHA256SUMS of {len(files)} files")


def target_of(path: Path) -> str:
    """Returns the target of an archive or a bundle."""
    for target in target_rows():
        names = {f"reqlore-{VERSION}-{target}{suffix}" for suffix in (archive_of(target), ".mcpb")}
        if path.name in names:
            return target
    sys.exit(f"FAILED {path.name} has another version or target")


@cache
def runner(target: str) -> list[str] | None:
    """Returns the words before a program of `target`, or None if this machine cannot run it."""
    run = how(target)
    words = [] if target == HOST else RUNNERS.get(run)
    if words and not shutil.which(words[0]):
        return None
    if run == "wine":
        prepare_wine()
    return words


def members(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yields name, content and mode of each file of an archive."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as packed:
            for member in packed.infolist():
                # The seconds of this format are even.
                plain = member.date_time == gmtime(EPOCH - EPOCH % 2)[:6]
                expect(plain, f"{path.name}: {member.filename} has the time of packing")
                yield member.filename, packed.read(member), member.external_attr >> 16 & 0o777
        return
    with tarfile.open(path) as tar:
        for member in tar:
            expect(member.isdir() or member.isfile(), f"{path.name} contains {member.name}")
            plain = (member.mtime, member.uid, member.gid, member.uname) == (EPOCH, 0, 0, "")
            expect(plain, f"{path.name}: {member.name} has the user or time of packing")
            if member.isfile():
                yield member.name, tar.extractfile(member).read(), member.mode


def archive(path: Path) -> None:
    target = target_of(path)
    stem, file = path.name.removesuffix(archive_of(target)), program_of(target)
    content = {}
    for name, text, mode in members(path):
        expect(name.startswith(f"{stem}/"), f"{path.name} contains {name}")
        content[name.removeprefix(f"{stem}/")] = text
        expect(mode == (0o755 if name == f"{stem}/{file}" else 0o644), f"{name}: wrong mode")
    for name in PAPERS:
        same = content[name] == (ROOT / name).read_bytes()
        expect(same, f"{path.name} has another {name}")
    foreign = content["THIRD-PARTY-LICENSES"].decode()
    for name, version in linked():
        named = name.startswith("reqlore") or f"{name} {version}" in foreign
        expect(named, f"{path.name} lacks the license of {name}")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, file)
        program.write_bytes(content[file])
        program.chmod(0o755)
        start(path, target, program)


def start(path: Path, target: str, program: Path) -> None:
    """Starts a program of the artifact `path`, if this machine can run it."""
    if (words := runner(target)) is not None:
        says = subprocess.check_output([*words, program, "--version"], text=True)
        expect(says == f"reqlore {VERSION}\n", f"{path.name} prints the version {says!r}")


def bundle(path: Path) -> None:
    target = target_of(path)
    # First, because it changes the folder of temporary files.
    words = runner(target)
    with tempfile.TemporaryDirectory() as folder:
        unpacked, project = Path(folder, "bundle"), Path(folder, "project")
        project.mkdir()
        bundler("unpack", path, unpacked)
        bundler("validate", unpacked / "manifest.json")
        manifest = json.loads((unpacked / "manifest.json").read_text())
        expect(manifest["version"] == VERSION, f"{path.name} has another version")
        system = manifest["compatibility"]["platforms"]
        expect(system == [target_rows()[target][1]], f"{path.name} is for {system}")
        program = unpacked / manifest["server"]["entry_point"]
        expect(program.name == program_of(target), f"{path.name} starts {program.name}")
        expect(os.access(program, os.X_OK), f"{path.name}: its program can't be started")
        if words is not None:
            started(path.name, manifest, unpacked, project, words)


def started(
    name: str, manifest: dict[str, Any], unpacked: Path, project: Path, words: list[str]
) -> None:
    """Starts the bundle as a desktop client does, and compares its tools with the manifest."""
    config = manifest["server"]["mcp_config"]
    command = [config["command"], *config["args"]]
    for variable, value in (("__dirname", unpacked), ("user_config.project", project)):
        command = [word.replace(f"${{{variable}}}", str(value)) for word in command]
    with served([*words, *command]) as (server, about):
        expect(about["serverInfo"]["version"] == VERSION, f"{name} starts another version")
        tools = [tool["name"] for tool in server.all("tools/list", "tools")]
        listed = [tool["name"] for tool in manifest["tools"]]
        expect(tools and tools == listed, f"{name}: the manifest lists {listed}, not {tools}")
        item = server.ask("tools/call", name="create_epic", arguments={"title": "A", "priority": 1})
        expect(not item.get("isError"), f"{name}: {item}")
    written = "*.db" if "sqlite" in command else "EP-001*"
    expect(list(project.rglob(written)), f"{name} does not write into the project folder")


def bundler(*arguments: str | Path) -> None:
    run = subprocess.run(["node", BUNDLER, *arguments], capture_output=True, text=True, check=False)
    expect(run.returncode == 0, run.stdout + run.stderr)


def package(path: Path) -> None:
    """Verifies an npm package; tests/npm covers installation and use."""
    with tarfile.open(path) as tar:
        content = json.load(tar.extractfile("package/package.json"))
        expect(content["version"] == VERSION, f"{path.name} has another version")
        entry = json.loads(path.with_name("server.json").read_text())
        place = content["repository"]["url"].removeprefix("git+").removesuffix(".git")
        expect(place == entry["repository"]["url"], f"{path.name} has the repository {place}")
        if content["name"] != "reqlore":
            target = PLATFORMS[content["name"].removeprefix("@reqlore/")]["target"]
            program = tar.extractfile(f"package/bin/{program_of(target)}").read()
            expect(program == binaries(path.parent)[target], f"{path.name} contains another binary")
            tar.getmember("package/THIRD-PARTY-LICENSES")
            return
    given, wanted = content.get("mcpName"), entry["name"]
    expect(given == wanted, f"{path.name}: mcpName is {given}, but {wanted} in server.json")
    platforms = {
        f"{name.replace('@', '').replace('/', '-')}-{VERSION}.tgz"
        for name in content["optionalDependencies"]
    }
    lacking = platforms ^ {other.name for other in path.parent.glob("*.tgz")} - {path.name}
    expect(not lacking, f"{path.name} and the other packages differ in {sorted(lacking)}")


def wheel(path: Path) -> None:
    """Compares a wheel with its list of files, installs it, and starts it if possible."""
    tag = path.stem.split("-none-")[1]
    (target,) = [target for target, columns in target_rows().items() if columns[2] == tag]
    program = check_wheel(path, program_of(target))
    same = program == binaries(path.parent)[target]
    expect(same, f"{path.name} contains another binary than the archive of {target}")
    with zipfile.ZipFile(path) as content:
        about = content.read(f"reqlore-{VERSION}.dist-info/METADATA").decode()
    server = json.loads(path.with_name("server.json").read_text())["name"]
    expect(f"mcp-name: {server} " in about, f"{path.name} does not name {server}")
    with tempfile.TemporaryDirectory() as folder:
        # pip refuses a wheel for another machine, unless it is named.
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        machine = [] if target == HOST else ["--platform", tag, "--only-binary", ":all:"]
        place = ["--no-index", "--no-deps", "--target", folder]
        subprocess.run([*pip, *machine, *place, path], check=True)
        start(path, target, Path(folder, "bin", program_of(target)))


def image(path: Path) -> None:
    """Follows the index of an image to each binary, and starts that of this machine as its user."""
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        content = {name: file.read() for name, file in files.items() if file}

    def blob(descriptor: dict[str, Any]) -> bytes:
        algorithm, digest = descriptor["digest"].split(":")
        text = content[f"blobs/{algorithm}/{digest}"]
        same = (hashlib.sha256(text).hexdigest(), len(text)) == (digest, descriptor["size"])
        expect(same, f"{path.name}: a blob differs from its descriptor {descriptor}")
        return text

    (outer,) = json.loads(content["index.json"])["manifests"]
    for descriptor in json.loads(blob(outer))["manifests"]:
        manifest = json.loads(blob(descriptor))
        config = json.loads(blob(manifest["config"]))
        (layer,) = manifest["layers"]
        expect(config["architecture"] == descriptor["platform"]["architecture"], path.name)
        server = json.loads(path.with_name("server.json").read_text())["name"]
        label = config["config"]["Labels"]["io.modelcontextprotocol.server.name"]
        expect(label == server, f"{path.name}: the label is {label}, not {server}")
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(fileobj=io.BytesIO(blob(layer))) as tar:
                # With the owners of the files.
                tar.extractall(folder, filter="fully_trusted")
            root = Path(folder)
            program = (root / "usr/local/bin/reqlore").read_bytes()
            (processor,) = [p for p, of in PROCESSORS.items() if of == config["architecture"]]
            archived = binaries(path.parent)[f"{processor}-unknown-linux-musl"]
            expect(program == archived, f"{path.name} contains another binary")
            licence = root / "usr/share/doc/reqlore/THIRD-PARTY-LICENSES"
            expect(licence.is_file(), f"{path.name} has no licenses")
            if not HOST.startswith(f"{processor}-"):
                continue
            if os.geteuid() != 0:
                print(f"{path.name}: not started, because only root can change the user")
                continue
            os.chmod(folder, 0o755)
            started_as_user(root, config["config"])


def started_as_user(root: Path, config: dict[str, Any]) -> None:
    """Writes to the data folder of an unpacked image as the user of its settings."""
    command = ["chroot", f"--userspec={config['User']}", str(root), *config["Entrypoint"]]
    settings = dict(setting.split("=", 1) for setting in config["Env"])
    add = [*command, "user", "add", "ann", "--role", "administrator"]
    # chroot is found by this process's PATH.
    run = subprocess.run(add, env=os.environ | settings | {"PATH": os.environ["PATH"]}, check=False)
    data = root / config["WorkingDir"].lstrip("/")
    expect(run.returncode == 0, "the image's program failed as the image's user")
    owners = {file.stat().st_uid for file in data.iterdir()}
    expect(owners == {int(config["User"].split(":")[0])}, f"{owners} own the image's data")


@cache
def binaries(out: Path) -> dict[str, bytes]:
    """Returns the binary of every archive by its target."""
    found = {}
    for target in target_rows():
        path = out / f"reqlore-{VERSION}-{target}{archive_of(target)}"
        if path.exists():
            content = {Path(name).name: text for name, text, _ in members(path)}
            found[target] = content[program_of(target)]
    return found


def formula(path: Path) -> None:
    """Compares the hashes of a formula, and parses it where Ruby is installed."""
    listed = re.findall(r'url ".+/(.+)"\n\s+sha256 "(.+)"', path.read_text())
    expect(len(listed) == 4, f"{path.name} lists {listed}")
    for name, digest in listed:
        expect(digest == digest_of(path.with_name(name)), f"{path.name}: hash of {name}")
    if shutil.which("ruby"):
        subprocess.run(["ruby", "-wc", path], check=True, stdout=subprocess.DEVNULL)


def scoop(path: Path) -> None:
    """Compares the hashes of a manifest for Scoop, and finds its program in the archives."""
    content = json.loads(path.read_text())
    expect(content["version"] == VERSION, f"{path.name} has another version")
    for about in content["architecture"].values():
        name = about["url"].rsplit("/", 1)[1]
        expect(about["hash"] == digest_of(path.with_name(name)), f"{path.name}: hash of {name}")
        with zipfile.ZipFile(path.with_name(name)) as packed:
            packed.getinfo(f"{about['extract_dir']}/{content['bin']}")


def registry_entry(out: Path) -> None:
    """Checks the rules of the schema in `$schema` and further rules of the registry."""
    entry = json.loads((out / "server.json").read_text())
    known = {"$schema", "name", "title", "description", "version", "websiteUrl", "repository"}
    expect(set(entry) == known | {"packages"}, f"server.json has the keys {sorted(entry)}")
    name = re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    expect(name and len(entry["name"]) <= 200, f"server.json: name {entry['name']!r}")
    for key in ("title", "description"):
        expect(0 < len(entry[key]) <= 100, f"server.json: {key} has {len(entry[key])} characters")
    expect(entry["version"] == VERSION, "server.json has another version")
    expect(set(entry["repository"]) == {"url", "source"}, "server.json: repository")
    expect(entry["packages"][0]["registryType"] == "npm", "server.json: npm is not first")
    bundles = set()
    for package in entry["packages"]:
        expect(package["transport"] == {"type": "stdio"}, f"server.json: {package}")
        tagged = package["registryType"] == "oci" and package["identifier"].endswith(f":{VERSION}")
        expect(package.get("version", VERSION if tagged else "") == VERSION, f"server.json: {package}")
        if package["registryType"] == "mcpb":
            place, file = package["identifier"].rsplit("/", 1)
            expect(re.fullmatch(rf"https://.+/v{re.escape(VERSION)}", place), place)
            expect(package["fileSha256"] == digest_of(out / file), f"server.json: hash of {file}")
            bundles.add(file)
    expect(bundles == {path.name for path in out.glob("*.mcpb")}, "server.json: missing bundle")


def bill(path: Path) -> None:
    """Checks the bill of materials: all linked crates, each with a license."""
    content = json.loads(path.read_text())
    expect(content["bomFormat"] == "CycloneDX", "the bill is not in the CycloneDX format")
    expect("serialNumber" not in content, "the bill has a random serial number")
    here = re.search(r"file:///?(tmp|home|Users|root|var)/", path.read_text())
    expect(not here, f"the bill contains a local path: {here}")
    about, parts = content["metadata"]["component"], content["components"]
    expect((about["name"], about["version"]) == ("reqlore", VERSION), f"the bill describes {about}")
    listed = {(part["name"], part["version"]) for part in [about, *parts]}
    expect(listed == linked(), f"bill and Cargo differ in {sorted(listed ^ linked())}")
    for part in parts:
        expect(part.get("licenses"), f"the bill has no license for {part['name']}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
