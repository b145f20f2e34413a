"""Replay files: a finding as a file that shows it again, on any machine."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import Final

import attrs

from mcp_trio.harness.fuzzing.cases import Case
from mcp_trio.harness.model import LEVELS, Level, Role
from mcp_trio.protocol.revisions import REVISIONS
from mcp_trio.wire.jsonrpc import JSONObject

FORMAT: Final = 1


class NoReplay(Exception):
    """A file is no replay file; the message says why."""


@attrs.frozen(kw_only=True)
class Replay:
    """What a replay file says.

    Attributes:
        target: How the target was named at the end of the command line.
        role: What it is.
        oracle, cause, level, message: What it was accused of.
        seed: The seed of the run that found it.
        cases: What is played on one connection; the last one shows the fault.
        repeat: How often, where a fault shows itself by growing.
        deadline, allow_writes: The options of the run.
    """

    target: str
    role: Role = "server"
    revision: str
    oracle: str
    cause: str
    level: Level
    message: str
    seed: int
    cases: tuple[Case, ...]
    repeat: int = 1
    deadline: float
    allow_writes: bool

    @property
    def name(self) -> str:
        """A name for the file that only the same finding has."""
        what = [self.target, self.revision, *(case.to_json() for case in self.cases)]
        digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        return f"{self.oracle}-{digest[:8]}.json"

    def to_json(self) -> JSONObject:
        found = attrs.asdict(self, recurse=False)
        found["cases"] = [case.to_json() for case in self.cases]
        return {"mcp-trio-fuzz": FORMAT, **found}

    def write(self, folder: Path) -> Path:
        """Write the file; where it is.

        Raises:
            OSError: It cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=True)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def line(self, folder: Path | None) -> str:
        """Write the file; the shell command that plays it again.

        A disk that is full costs the file, and not the finding.
        """
        where, why = self.name, ""
        try:
            if folder is not None:
                where = str(self.write(folder))
        except OSError as exc:
            why = f"  # the file could not be written: {exc.strerror or exc}"
        return f"mcp-trio fuzz --replay {shlex.quote(where)} {self.target}{why}"


def read_replay(path: Path) -> Replay:
    """What a replay file says.

    Raises:
        NoReplay: It cannot be read, or is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict) or value.pop("mcp-trio-fuzz", None) != FORMAT:
            raise NoReplay(f"{path} is no replay file of this program")
        value["cases"] = tuple(Case.from_json(case) for case in value["cases"])
        replay = Replay(**value)
    except OSError as exc:
        raise NoReplay(f"{path} cannot be read: {exc.strerror}") from exc
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise NoReplay(f"{path} is damaged: {exc}") from exc
    if replay.revision not in REVISIONS or replay.level not in LEVELS or not replay.cases:
        raise NoReplay(f"{path} is damaged: revision, level or cases")
    return replay
