"""Fuzzing: cases by the thousand, oracles that judge what comes back, findings to replay.

    report = await fuzz_server(target, Plan(seconds=300, seed=7))

cases.py      what is done to a peer, step by step, as values
layers/       strategies: which cases there are
talk.py       plays cases over one connection; ledger.py knows what belongs to what
oracles.py    what is asked of every case; usage.py what is asked of many
inquiry.py    is it true, and with how little can it be shown?
campaign.py   brings it all together; files.py and replaying.py show findings again

The names here need Hypothesis, and load it when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_trio.harness.fuzzing.campaign import Plan, Progress, fuzz_server
    from mcp_trio.harness.fuzzing.files import NoReplay, Replay, read_replay
    from mcp_trio.harness.fuzzing.replaying import replay_finding

__all__ = [
    "NoReplay",
    "Plan",
    "Progress",
    "Replay",
    "fuzz_server",
    "read_replay",
    "replay_finding",
]

_HOMES = {
    "Plan": "campaign",
    "Progress": "campaign",
    "fuzz_server": "campaign",
    "NoReplay": "files",
    "Replay": "files",
    "read_replay": "files",
    "replay_finding": "replaying",
}


if not TYPE_CHECKING:  # type checkers are to know only the names above

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
