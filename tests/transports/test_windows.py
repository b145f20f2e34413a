"""The decisions that are made on Windows, with its system calls replaced."""

import ctypes
import sys
from typing import cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.transports.windows import (
    Accounting,
    BasicLimits,
    ExtendedLimits,
    Group,
    command_line,
    find_program,
)

NODE, TOOLS = r"C:\Program Files\nodejs", r"C:\tools"
ENV = {"SYSTEMROOT": r"C:\WINDOWS"}
CMD = r"C:\WINDOWS\System32\cmd.exe"


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        ("npx", [rf"{NODE}\npx", rf"{NODE}\npx.cmd", rf"{NODE}\npx.ps1"], rf"{NODE}\npx.cmd"),
        ("npx", [rf"{NODE}\npx.exe", rf"{NODE}\npx.bat"], rf"{NODE}\npx.bat"),
        ("npx", [rf"{NODE}\npx.ps1", rf"{NODE}\npx.exe"], rf"{NODE}\npx.exe"),
        ("npx", [rf"{TOOLS}\npx.cmd", rf"{NODE}\npx.exe"], rf"{NODE}\npx.exe"),
        ("npx.exe", [rf"{NODE}\npx.cmd", rf"{TOOLS}\npx.exe"], rf"{TOOLS}\npx.exe"),
        ("NPX.CMD", [rf"{NODE}\NPX.CMD"], rf"{NODE}\NPX.CMD"),
        ("python3.11", [rf"{TOOLS}\python3.11.exe"], rf"{TOOLS}\python3.11.exe"),
        (r"D:\x\run", [r"D:\x\run.bat"], r"D:\x\run.bat"),
        (r"D:\x\run", [r"D:\x\run"], r"D:\x\run"),
        (r"bin\run", [r"C:\work\bin\run.exe"], r"C:\work\bin\run.exe"),
        (r".\run.cmd", [r"C:\work\.\run.cmd"], r"C:\work\.\run.cmd"),
    ],
)
def test_find_program(command: str, files: list[str], found: str) -> None:
    """PATH decides first, then the order of suffixes; paths start at the child's directory."""
    path = f';"{NODE}";{TOOLS}'
    assert find_program(command, path, r"C:\work", files.__contains__) == found


@pytest.mark.parametrize("command", ["npx", "npx.exe", r"sub\npx", r"D:\npx.cmd"])
def test_program_not_found(command: str) -> None:
    """What is not there is named; a bare name is not looked for where we happen to be."""
    with pytest.raises(FileNotFoundError, match="command not found") as info:
        find_program(command, NODE, r"C:\work", [r"C:\work\npx.exe"].__contains__)
    assert info.value.filename == command


def test_program_files_get_an_ordinary_command_line() -> None:
    """A program gets its arguments quoted by the rules that C programs read them with."""
    line = command_line(rf"{NODE}\node.exe", ["a b", 'say "hi"', "50%", "x\\"], ENV)
    assert line == rf'"{NODE}\node.exe" "a b" "say \"hi\"" 50% x\ '.rstrip()


def test_scripts_get_their_interpreters() -> None:
    """Batch files run under cmd.exe, found in the system's own folder, ps1 under PowerShell."""
    assert command_line(rf"{NODE}\npx.cmd", ["-y", "a&b", ""], ENV) == (
        rf'"{CMD}" /d /e:on /v:off /s /c ""{NODE}\npx.cmd" "-y" "a&b" """'
    )
    assert command_line(rf"{NODE}\npx.ps1", ["a b"], ENV) == (
        r"C:\WINDOWS\System32\WindowsPowerShell\v1.0\powershell.exe -NoLogo -NoProfile "
        rf'-NonInteractive -File "{NODE}\npx.ps1" "a b"'
    )
    assert command_line(r"C:\x.BAT", [], {}).startswith(r'"C:\Windows\System32\cmd.exe" /d')


@pytest.mark.parametrize("argument", ['"&calc.exe', "%CMDCMDLINE:~-1%&calc.exe", "a\nb", "a\rb"])
def test_batch_injection_is_refused(argument: str) -> None:
    """An argument that could leave its quotes in cmd.exe is refused, and the way out is told."""
    with pytest.raises(ValueError, match=r"batch file.*run the program that it starts instead"):
        command_line(r"C:\npx.cmd", ["ok", argument], ENV)
    assert command_line(r"C:\node.exe", [argument], ENV), "a program takes it"


@given(st.lists(st.text()))
def test_batch_words_stay_inside_their_quotes(args: list[str]) -> None:
    """Whatever is not refused is all between pairs of quotes, where cmd.exe reads it as text."""
    try:
        line = command_line(r"C:\a&b.cmd", args, ENV)
    except ValueError:
        assert any(set(arg) & set('"%\r\n') for arg in args)
        return
    inner = line.partition(' /c "')[2].removesuffix('"')
    outside, inside = inner.split('"')[::2], inner.split('"')[1::2]
    assert set("".join(outside)) <= {" "}
    assert [word.rstrip("\\") for word in inside] == [
        word.rstrip("\\") for word in (r"C:\a&b.cmd", *args)
    ]
    assert all((len(word) - len(word.rstrip("\\"))) % 2 == 0 for word in inside)


class Leader:
    """A process that runs until it is killed."""

    pid = 42
    status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def kill(self) -> None:
        self.status = 1


class FakeJobs:
    """A system with one job, and calls that fail where told to."""

    def __init__(self, *failing: str) -> None:
        self.calls: list[str] = []
        self.failing = failing
        self.count = 2

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name.split()[0] in self.failing:
            raise OSError(f"{name} failed")

    def create(self) -> int:
        self._call("create")
        return 7

    def assign(self, job: int, pid: int) -> None:
        self._call(f"assign {job} {pid}")

    def terminate(self, job: int) -> None:
        self._call(f"terminate {job}")
        self.count = 0

    def active(self, job: int) -> int:
        self._call(f"active {job}")
        return self.count

    def close(self, job: int) -> None:
        self._call(f"close {job}")


def group(jobs: FakeJobs) -> tuple[Group, Leader]:
    leader = Leader()
    return Group(cast(trio.Process, leader), jobs), leader


@pytest.mark.parametrize("forced", [False, True])
def test_group_is_a_job(forced: bool) -> None:
    """The child joins a job; ending it ends the tree; survivors are those the job counts."""
    jobs = FakeJobs()
    family, leader = group(jobs)
    assert jobs.calls == ["create", "assign 7 42"]
    assert family.alive()
    leader.status = 0
    assert family.leader_status() == 0
    assert family.alive(), "a descendant is left"
    family.end(forced=forced)
    assert not family.alive()
    family.close()
    family.close()
    assert jobs.calls[-3:] == ["terminate 7", "active 7", "close 7"]


@pytest.mark.parametrize("failing", ["create", "assign"])
def test_without_a_job(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where no job can be had this is logged, the handle given back, and the child killed alone."""
    jobs = FakeJobs(failing)
    family, leader = group(jobs)
    assert "its children may outlive it" in caplog.text
    assert jobs.calls[-1] == ("create" if failing == "create" else "close 7")
    assert family.alive()
    family.end(forced=False)
    assert leader.status == 1
    assert not family.alive()
    family.end(forced=True)


@pytest.mark.skipif(sys.maxsize < 2**32, reason="sizes of a 64-bit system")
def test_structures_have_the_sizes_of_the_system() -> None:
    """The structures are those of winnt.h: a wrong size would make every call fail."""
    assert ctypes.sizeof(BasicLimits) == 64
    assert ctypes.sizeof(ExtendedLimits) == 144
    assert ctypes.sizeof(Accounting) == 48
