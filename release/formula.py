"""Writes the Homebrew formula and the Scoop manifest of a release, which install the archives."""

from typing import Any

# The blocks of the formula by the target whose archive each one installs.
BLOCKS = {
    "aarch64-apple-darwin": ("macos", "arm"),
    "x86_64-apple-darwin": ("macos", "intel"),
    "aarch64-unknown-linux-gnu": ("linux", "arm"),
    "x86_64-unknown-linux-gnu": ("linux", "intel"),
}
# The architectures of the Scoop manifest by target.
ARCHITECTURES = {"x86_64-pc-windows-gnu": "64bit"}
SUMMARY = "MCP server for a project's requirements and knowledge"

FORMULA = """\
class Reqlore < Formula
  desc "{summary}"
  homepage "{home}"
  version "{version}"
  license any_of: ["MIT", "Apache-2.0"]

{blocks}
  def install
    bin.install "reqlore"
    bash_completion.install "completions/reqlore.bash" => "reqlore"
    zsh_completion.install "completions/_reqlore"
    fish_completion.install "completions/reqlore.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/reqlore --version")
  end
end
"""


def formula(home: str, version: str, hashes: dict[str, str]) -> bytes:
    """Returns the formula for the SHA-256 hashes of archives by target."""
    blocks = ""
    for system in ("macos", "linux"):
        blocks += f"  on_{system} do\n"
        for target, (of, processor) in BLOCKS.items():
            if of == system:
                file = f"{home}/releases/download/v{version}/reqlore-{version}-{target}.tar.gz"
                blocks += f'    on_{processor} do\n      url "{file}"\n'
                blocks += f'      sha256 "{hashes[target]}"\n    end\n'
        blocks += "  end\n\n"
    blocks = blocks.rstrip("\n") + "\n"
    return FORMULA.format(summary=SUMMARY, home=home, version=version, blocks=blocks).encode()


def scoop(home: str, version: str, hashes: dict[str, str]) -> dict[str, Any]:
    """Returns the manifest for the SHA-256 hashes of archives by target."""
    return {
        "version": version,
        "description": SUMMARY,
        "homepage": home,
        "license": "MIT|Apache-2.0",
        "architecture": {
            architecture: {
                "url": f"{home}/releases/download/v{version}/reqlore-{version}-{target}.zip",
                "hash": hashes[target],
                "extract_dir": f"reqlore-{version}-{target}",
            }
            for target, architecture in ARCHITECTURES.items()
        },
        "bin": "reqlore.exe",
    }
