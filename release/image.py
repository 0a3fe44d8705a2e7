"""Packs static binaries as a container image, without a base image and without a registry.

The result is a tar file with an OCI image layout (Open Container Initiative, image specification
1.1) that has one image per processor. skopeo reads it and copies it to a registry or to Docker.
"""

import gzip
import hashlib
import io
import json
import tarfile
from time import gmtime, strftime
from typing import Any

PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
# The user `nonroot` of the distroless images, which owns the data folder.
USER = 65532
DATA = "var/lib/reqlore"
USERS = f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/{DATA}:/sbin/nologin\n"
GROUPS = f"root:x:0:\nnonroot:x:{USER}:\n"
MEDIA = "application/vnd.oci.image"
# As in deploy/Containerfile.
SETTINGS = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"8080/tcp": {}},
    "Env": [
        "PATH=/usr/local/bin",
        f"REQLORE_STORAGE=sqlite:/{DATA}/reqlore.db",
        f"REQLORE_CACHE=/{DATA}/cache",
    ],
    "Entrypoint": ["/usr/local/bin/reqlore"],
    "Cmd": [
        "serve",
        *("--transport", "http", "--listen", "0.0.0.0:8080"),
        "--behind-proxy=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
    ],
    "Volumes": {f"/{DATA}": {}},
    "WorkingDir": f"/{DATA}",
    "StopSignal": "SIGTERM",
}


class Layout:
    """The blobs of an image layout, each named by its hash."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def add(self, media: str, content: bytes, **more: Any) -> dict[str, Any]:
        """Adds a blob and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)} | more


def image(
    binaries: dict[str, bytes],
    extras: dict[str, bytes],
    labels: dict[str, str],
    version: str,
    epoch: int,
) -> bytes:
    """Returns the tar file for `binaries` by the processor in a Rust target.

    `extras` are further files by path: the certificates that connections to PostgreSQL trust, and
    licenses. The registry of MCP servers finds the owner of an image by a label.
    """
    layout, created = Layout(), strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(epoch))
    manifests = []
    for processor, binary in sorted(binaries.items()):
        system = {"architecture": PROCESSORS[processor], "os": "linux"}
        plain = root_folder(binary, extras, epoch)
        layer = layout.add(f"{MEDIA}.layer.v1.tar+gzip", gzip.compress(plain, mtime=epoch))
        config = system | {
            "created": created,
            "config": SETTINGS | {"Labels": labels},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"],
            },
            "history": [{"created": created, "created_by": "release/image.py"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": layout.add(f"{MEDIA}.config.v1+json", as_json(config)),
            "layers": [layer],
            "annotations": labels,
        }
        media = f"{MEDIA}.manifest.v1+json"
        manifests.append(layout.add(media, as_json(manifest), platform=system))
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": manifests}
    name = {"org.opencontainers.image.ref.name": version}
    outer = layout.add(f"{MEDIA}.index.v1+json", as_json(index), annotations=name)
    layout.files["index.json"] = as_json({"schemaVersion": 2, "manifests": [outer]})
    return tar_of({path: (content, 0o644, 0) for path, content in layout.files.items()}, epoch)


def root_folder(binary: bytes, extras: dict[str, bytes], epoch: int) -> bytes:
    """Returns the files of the image as a tar file. An entry without content is a folder."""
    return tar_of(
        {
            "etc/group": (GROUPS.encode(), 0o644, 0),
            "etc/passwd": (USERS.encode(), 0o644, 0),
            "tmp": (None, 0o1777, 0),
            "usr/local/bin/reqlore": (binary, 0o755, 0),
            DATA: (None, 0o700, USER),
        }
        | {path: (content, 0o644, 0) for path, content in extras.items()},
        epoch,
    )


def tar_of(content: dict[str, tuple[bytes | None, int, int]], epoch: int) -> bytes:
    """Returns a tar file of paths with content, mode and owner, with all parent folders."""
    parents = {
        path[: at + 1] for path in content for at, letter in enumerate(path) if letter == "/"
    }
    entries = {path.rstrip("/"): (None, 0o755, 0) for path in parents} | content
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, (text, mode, owner) in sorted(entries.items()):
            member = tarfile.TarInfo(path)
            member.mtime, member.mode, member.uid, member.gid = epoch, mode, owner, owner
            if text is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(text)
            tar.addfile(member, io.BytesIO(text or b""))
    return packed.getvalue()


def as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
