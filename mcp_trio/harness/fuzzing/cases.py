"""A case: what one fuzzing run does to a peer, step by step, as a value that JSON can hold.

    Case(
        layer="sequences",
        steps=(
            Ask(1, "tools/call", {"name": "count", "arguments": {"to": 3}}),
            Cancel(1),
            Await(1, seconds=0.1),
        ),
    )

`Ask`, `Tell` and `Cancel` say what is meant, and become frames of whatever revision is spoken; the
ids in them are numbers of the case, to which a connection adds its own base, so that no id is used
twice on it. `Send` and `Raw` say what bytes go out. A replay file holds these steps and nothing
else, so whatever a strategy is made of, the case can be played without Hypothesis.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from mcp_trio.wire.jsonrpc import JSON, JSONObject

Answers: TypeAlias = Literal["well", "errors", "odd", "never"]
"""How the harness answers what the peer asks: as it should, with errors, with nonsense, not."""

_Text: TypeAlias = "str | JSONObject"


def _to_text(data: bytes) -> _Text:
    """Bytes as JSON can hold them: as text where they are text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _to_bytes(text: _Text) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])


@attrs.frozen
class Step:
    """One thing that is done to the peer."""

    do: ClassVar[str]

    def to_json(self) -> JSONObject:
        """The step in a replay file. What has its default value is left out."""
        fields = {
            field.name: _write(getattr(self, field.name))
            for field in attrs.fields(type(self))
            if getattr(self, field.name) != field.default
        }
        return {"do": self.do, **fields}

    @property
    def shape(self) -> str:
        """What it is, without the details: steps of one shape are likely to fail alike."""
        return self.do


def _write(value: Any) -> JSON:
    if isinstance(value, bytes):
        return _to_text(value)
    if isinstance(value, tuple):
        return [_write(item) for item in value]
    return value


@attrs.frozen
class Ask(Step):
    """Send a request.

    Attributes:
        id: Its number in the case.
        meta: Added to the `_meta` that the revision asks for; None takes a key away.
        token: Ask for progress, too; the token is the id.
    """

    do = "ask"
    id: int
    method: str
    params: JSONObject | None = None
    meta: JSONObject | None = None
    token: bool = False

    @property
    def shape(self) -> str:
        name = (self.params or {}).get("name")
        tool = f" {name}" if self.method == "tools/call" and isinstance(name, str) else ""
        return f"ask {self.method[:60]}{tool[:60]}"


@attrs.frozen
class Tell(Step):
    """Send a notification."""

    do = "tell"
    method: str
    params: JSONObject | None = None

    @property
    def shape(self) -> str:
        return f"tell {self.method[:60]}"


@attrs.frozen
class Cancel(Step):
    """Send the notification that cancels the request with a number."""

    do = "cancel"
    id: int


@attrs.frozen
class Send(Step):
    """Send one frame as it is.

    Attributes:
        clear: Nobody can mistake it: it is one valid message, however odd its spelling. Otherwise
            the peer may answer it or not.
    """

    do = "send"
    frame: bytes
    what: str = ""
    clear: bool = False

    @property
    def shape(self) -> str:
        return f"send {self.what}".rstrip()


@attrs.frozen
class Raw(Step):
    """Send bytes that are not made a frame of, in these pieces.

    Attributes:
        clear: They are lines which are valid messages each, or blank.
    """

    do = "raw"
    chunks: tuple[bytes, ...]
    what: str = ""
    clear: bool = False

    @property
    def shape(self) -> str:
        return f"raw {self.what}".rstrip()


@attrs.frozen
class Post(Step):
    """Send an HTTP request with exactly this method, these headers and this body.

    Attributes:
        headers: Beside those without which it would be no HTTP; a value of None takes one away
            that a well-meant request has.
    """

    do = "http"
    method: str
    headers: Mapping[str, str | None]
    body: bytes
    what: str = ""

    @property
    def shape(self) -> str:
        return f"http {self.method[:20]} {self.what}".rstrip()


@attrs.frozen
class At(Step):
    """For clients: what follows is sent when the client makes its n-th request, before the answer.

    In the frames that follow, `"$id"` stands for the id of that request.
    """

    do = "at"
    request: int


@attrs.frozen
class Instead(Step):
    """For clients: this frame in place of the answer to the request."""

    do = "instead"
    frame: bytes
    what: str = ""

    @property
    def shape(self) -> str:
        return f"instead {self.what}".rstrip()


@attrs.frozen
class Flood(Step):
    """Send a request many times in a row, each under an id of its own, without waiting."""

    do = "flood"
    id: int
    times: int
    method: str
    params: JSONObject | None = None

    @property
    def shape(self) -> str:
        return f"flood {self.method[:60]}"


@attrs.frozen
class Await(Step):
    """Wait for the answer to the request with a number, or so many seconds."""

    do = "await"
    id: int
    seconds: float = 1.0


@attrs.frozen
class Pause(Step):
    """Do nothing for a while."""

    do = "pause"
    seconds: float


@attrs.frozen
class Stall(Step):
    """Stop reading from here on, for so many seconds; what follows is sent all the same."""

    do = "stall"
    seconds: float


@attrs.frozen
class EndInput(Step):
    """Say that nothing more will come, and see how the peer ends."""

    do = "end-input"


@attrs.frozen
class Cut(Step):
    """Close the connection in both directions, at once."""

    do = "cut"


@attrs.frozen
class Signal(Step):
    """Send a signal to the process, such as "STOP" or "CONT"."""

    do = "signal"
    name: str

    @property
    def shape(self) -> str:
        return f"signal {self.name}"


_STEPS: Final[dict[str, type[Step]]] = {
    step.do: step
    for step in (
        Ask, Tell, Cancel, Send, Raw, Post, Flood, Await, Pause, Stall, EndInput, Cut, Signal,
        At, Instead,
    )
}  # fmt: skip

ENDINGS: Final = (EndInput, Cut)
"""Steps after which the connection is of no use."""


def step_from_json(value: JSONObject) -> Step:
    """The step that `Step.to_json` wrote.

    Raises:
        ValueError: It is none.
    """
    fields = dict(value)
    try:
        kind = _STEPS[fields.pop("do")]
        for name in ("frame", "body"):
            if name in fields:
                fields[name] = _to_bytes(fields[name])
        if "chunks" in fields:
            fields["chunks"] = tuple(map(_to_bytes, fields["chunks"]))
        return kind(**fields)
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"{str(value)[:200]} is no step: {exc}") from exc


@attrs.frozen(repr=False)
class Case:
    """Steps, and what they are played on.

    Attributes:
        layer: The layer that it comes from.
        steps: What is done.
        handshake: A legacy session is opened first. Without, the case begins on a connection on
            which nothing has been said.
        answers: How the harness answers what the peer asks meanwhile.
    """

    layer: str
    steps: tuple[Step, ...]
    handshake: bool = True
    answers: Answers = "well"

    def __repr__(self) -> str:
        return f"<Case of {len(self.steps)} steps: {self.shape[:200]}>"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """What Hypothesis prints, which would otherwise be each byte of a megabyte."""
        printer.text(repr(self))

    @property
    def ends_connection(self) -> bool:
        return any(isinstance(step, ENDINGS) for step in self.steps)

    @property
    def shape(self) -> str:
        """The shapes of its steps, without repetitions."""
        shapes = list(dict.fromkeys(step.shape for step in self.steps))
        return ("" if self.handshake else "no handshake, ") + ", ".join(shapes)

    def to_json(self) -> JSONObject:
        """The case in a replay file."""
        return {
            "layer": self.layer,
            "handshake": self.handshake,
            "answers": self.answers,
            "steps": [step.to_json() for step in self.steps],
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> Case:
        """The case that `to_json` wrote.

        Raises:
            ValueError: It is none.
        """
        try:
            steps = tuple(step_from_json(step) for step in value["steps"])
            return cls(value["layer"], steps, value["handshake"], value["answers"])
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"this is no case: {type(exc).__name__}: {exc}") from exc
