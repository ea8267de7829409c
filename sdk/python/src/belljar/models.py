# Made by generate.py: change what it is made from, and run that again.
"""What the service answers, as docs/openapi.json has it.

A newer service may say more than this version knows: fields that are not known are kept, and a word that is
not known is a word like others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from ._shown import DisplayMethods, OutcomeMethods, ShownMethods


class Model(BaseModel):
    """What an answer is made of."""

    model_config = ConfigDict(extra="allow", frozen=True)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is no string")
    return value


_Word = PlainValidator(_word)


Capability = Annotated[Literal["files_read", "files_written", "network", "processes", "deletions", "installs", "unknown"], _Word]
"""A capability of code."""


class Finding(Model):
    """A place in the code that shows a capability."""

    line: int
    """The line, counted from 1 by line feeds."""

    capability: Capability
    """The capability."""

    what: str
    """The code there: the function by its full name, and the text that it is given."""


class Risk(Model):
    """The capabilities of a cell."""

    findings: list[Finding]
    """The findings, by line. What is found several times is listed at its first line."""

    imports: list[str]
    """The modules that it imports: of dotted names the first part."""


class Subject(Model):
    """The subject of an approval.

    - `cell`: That a cell runs.
    - `call`: That a tool is called: by code which runs, or by the model itself.
    """

    kind: Annotated[Literal["cell", "call"], _Word]

    code: str | None = None
    """All of it. Told with `cell`."""

    risk: Risk | None = None
    """Its capabilities. Told with `cell`."""

    number: int | None = None
    """Its number among the calls of the cell, from 1; 0 for a call of the model. Told with `call`."""

    tool: str | None = None
    """The tool. Told with `call`."""

    arguments: dict[str, Any] | None = None
    """The arguments. Told with `call`."""


class ShownPart(Model):
    """A piece of a row."""

    text: str
    """Text to be shown unchanged: letters, signs and single spaces, and nothing that acts on other
    text.
    """

    odd: bool | None = None
    """Whether it replaces something invisible or deceptive, as `\\u{202e}`, or a long repetition,
    as `⟨40 empty lines⟩`.
    """


class ShownRow(Model):
    """A line as a person sees it, or a part of a long one, or several blank ones."""

    line: int | None = None
    """The number of the line that begins here; none if the row continues the one before it."""

    parts: list[ShownPart]
    """Its parts, from left to right."""


class ShownSubject(ShownMethods, Model):
    """The view of what is to be approved: complete, with deceptive characters escaped."""

    tool: str | None = None
    """The tool, for a call."""

    findings: list[Finding]
    """Its capabilities."""

    remarks: list[str]
    """Warnings, each in a few words. Ordinary code and arguments have none."""

    rows: list[ShownRow]
    """The code, or the arguments as JSON, row by row."""


class Approval(Model):
    """A request for approval."""

    id: str
    """Its id within its run."""

    step: int
    """Its step."""

    call: int
    """The index of the call in the step."""

    subject: Subject
    """What is to be approved."""

    hash: str
    """SHA-256 of its exact bytes: a decision is for these, and for nothing else."""

    shown: ShownSubject
    """The view for a person. Whoever asks a person shows this, and nothing else of it."""


ArtifactChange = Annotated[Literal["created", "changed"], _Word]
"""A change of a file."""


class Artifact(Model):
    """A file that a cell made or changed."""

    path: str
    """Path relative to the workspace."""

    size: int
    """Bytes."""

    change: ArtifactChange
    """The change."""


class Budget(Model):
    """The budget of a run. The first part that is used up ends it."""

    steps: int | None = None
    """Turns of the model: 20."""

    tokens: int | None = None
    """Tokens of all requests and replies together."""

    money: float | None = None
    """Money, in the currency of the profile's prices."""

    seconds: int | None = None
    """Seconds of the model and the tools together."""

    calls: int | None = None
    """Tool calls: 100."""

    cell_calls: int | None = None
    """Tool calls by code of cells: 10,000. Further calls are denied; the run continues."""

    repeats: int | None = None
    """Rollbacks by loop detection: 2."""


BudgetPart = Annotated[Literal["steps", "tokens", "money", "seconds", "calls"], _Word]
"""A part of a `Budget`."""


class CallDenial(Model):
    """Why the host denied a call by itself.

    - `not_granted`: The tool is not granted to this session.
    - `nobody_answers`: The caller of the cell does not answer calls.
    - `arguments`: The arguments don't match the tool's schema.
    """

    reason: Annotated[Literal["not_granted", "nobody_answers", "arguments"], _Word]

    why: str | None = None
    """What is wrong with them. Told with `arguments`."""


class CallId(Model):
    """The id of a call, unique in its session."""

    cell: int
    """Number of its cell."""

    number: int
    """Its number in the cell, counted from 1 in the order in which the code makes calls."""


class Traffic(Model):
    """Network activity."""

    connections: int
    """Connections made to servers."""

    bytes_sent: int
    """Bytes sent to servers."""

    bytes_received: int
    """Bytes received from servers."""

    denials: int
    """Denials."""

    denials_unreported: int
    """Denials that were only counted, because their channel was full."""


Walls = Annotated[Literal["full", "unfiltered", "none"], _Word]
"""The isolation of the cell."""


Status = Annotated[Literal["success", "failure", "timeout", "crashed"], _Word]
"""How a cell ended, in one word."""


class Cause(Model):
    """Why it ended.

    - `completed`: All statements ran.
    - `exception`: An exception came out of the code.
    - `syntax`: The code did not compile; nothing ran.
    - `exit`: `sys.exit` (the session lives on) or `os._exit` (it does not; see `Outcome.state`).
    - `interrupted`: The caller interrupted it.
    - `wall_time`: It ran longer than its limit.
    - `cpu_time`: It used more CPU time than its limit.
    - `memory`: The kernel killed it because the session's memory was used up.
    - `signal`: A signal killed it.
    - `output_limit`: It exceeded the output limit of a cell.
    - `protocol`: Its process sent an invalid message to the host.
    """

    kind: Annotated[Literal["completed", "exception", "syntax", "exit", "interrupted", "wall_time", "cpu_time", "memory", "signal", "output_limit", "protocol"], _Word]

    code: int | None = None
    """The code it exited with. Told with `exit`."""

    limit_ms: int | None = None
    """The limit. Told with `wall_time`, `cpu_time`."""

    limit_bytes: int | None = None
    """The session's limit. Told with `memory`, `output_limit`."""

    number: int | None = None
    """Number of the signal. Told with `signal`."""

    name: str | None = None
    """Its name, such as `SIGSEGV`. Told with `signal`."""

    detail: str | None = None
    """The protocol error. Told with `protocol`."""


class Fate(Model):
    """What became of the session's variables.

    - `kept`: They are as the cell left them.
    - `restored`: They are as they were after the named cell.
    - `lost`: They are lost; the session has ended.
    """

    fate: Annotated[Literal["kept", "restored", "lost"], _Word]

    cell: int | None = None
    """The cell; 0 before the first one. Told with `restored`."""


class ExceptionInfo(Model):
    """An exception of Python."""

    type: str
    """Name of its type, with the module unless that is `builtins` or `__main__`."""

    value: str
    """`str()` of it."""

    repr: str
    """`repr()` of it."""

    traceback: str
    """The traceback without Belljar's own frames."""

    line: int | None = None
    """The line of this cell where it came from."""


class Output(Model):
    """The output of one stream."""

    text: str
    """The text, cut in the middle with a mark if it was too long."""

    bytes: int
    """Bytes that were written."""

    omitted_bytes: int
    """Bytes that `text` leaves out."""

    file: str | None = None
    """The file with the full text while the session lives, if `text` is cut."""

    file_truncated: bool | None = None
    """Whether that file is complete."""


class DisplayData(Model):

    mime: str

    text: str | None = None

    base64: str | None = None


class Display(DisplayMethods, Model):
    """A rich output: the same thing in one or more representations."""

    parts: list[DisplayData]
    """The representations, best last."""


class NameInfo(Model):
    """One name of a namespace."""

    name: str
    """The name."""

    type: str
    """Type of its value, with the module unless that is `builtins`."""

    shape: list[int] | None = None
    """Shape of an array or table."""

    length: int | None = None
    """Length of a built-in container or string."""

    size_bytes: int | None = None
    """Estimate of the bytes it holds."""

    cell: int
    """The cell where it was bound; 0 for a seeded name."""

    preview: str | None = None
    """The beginning of its value on one line, for built-in types and those of numpy and pandas. Only the manifest
    has it, not the changes of a cell.
    """


class Changes(Model):
    """Changes of a cell to the namespace."""

    added: list[NameInfo] = Field(default_factory=list)
    """New names."""

    changed: list[NameInfo] = Field(default_factory=list)
    """Names bound to another value, or whose length or shape changed."""

    removed: list[str] = Field(default_factory=list)
    """Removed names."""


class Durations(Model):
    """Durations of a cell."""

    total_us: int
    """From the request to the outcome, as the host saw it."""

    run_us: int
    """From the first to the last statement, as the guest measured it; 0 if it did not report it."""

    cpu_us: int
    """CPU time of everything in the session, according to the kernel."""


class Outcome(OutcomeMethods, Model):
    """The result of a cell."""

    cell: int
    """Number of the cell in its session, counted from 1."""

    network: Traffic | None = None
    """Network activity of the session since the last outcome, if it may reach any hosts."""

    walls: Walls | None = None
    """Its isolation; left out if all walls were up."""

    status: Status
    """How it ended."""

    cause: Cause
    """Why."""

    state: Fate
    """What became of the variables."""

    exit_code: int
    """0 if the process lives on; otherwise its exit code, or minus the number of the signal."""

    exception: ExceptionInfo | None = None
    """The exception, if one came out of the code."""

    package: str | None = None
    """The package of a module that was not found, if the session may install it."""

    stdout_output: Output = Field(alias="stdout")
    """Output to descriptor 1."""

    stderr_output: Output = Field(alias="stderr")
    """Output to descriptor 2."""

    transcript: str
    """Both, in the order they were written, as a terminal would show them."""

    displays: list[Display] = Field(default_factory=list)
    """Rich outputs, in order."""

    artifacts: list[Artifact] = Field(default_factory=list)
    """Files the cell created or changed."""

    changes: Changes = Field(default_factory=Changes)
    """Changes to the namespace."""

    notes: list[str] = Field(default_factory=list)
    """Notes: what was left out of this outcome, and why; and what the session lacks since it was
    restored, or since it hibernated before this cell.
    """

    durations: Durations
    """Durations."""

    peak_memory_bytes: int | None = None
    """Peak memory of the session during the cell, if the kernel reports it."""


class CallView(Model):
    """A call of a tool."""

    arguments: dict[str, Any]
    """Its arguments; for a cell, `code` as it ran: that of a person who changed it."""

    outcome: Outcome | None = None

    told: str | None = None
    """What the model was told instead of an outcome, such as why code was not run."""

    tool: str


CellState = Annotated[Literal["running", "done", "failed"], _Word]
"""What a cell is doing."""


class CellView(Model):
    """A cell that runs or has run."""

    cell: int
    """Its number in the session."""

    events: int
    """How many events it has told so far."""

    outcome: Outcome | None = None

    state: CellState


class CellList(Model):
    """The cells of a session that are kept."""

    cells: list[CellView]
    """The oldest first, without their outcomes."""


class CheckpointView(Model):
    """A frozen copy of a session."""

    cell: int
    """The cell after which it was made; 0 before the first one."""

    memory_bytes: int | None = None
    """Memory that it holds alone."""

    name: str | None = None
    """Its name, if it was made by name."""


class CheckpointList(Model):
    """The copies of a session."""

    checkpoints: list[CheckpointView]
    """The newest last."""


CheckpointPolicy = Annotated[Literal["off", "auto", "every"], _Word]
"""When frozen copies are made of a session."""


DeniedReason = Annotated[Literal["not_listed", "address_literal", "invalid_name", "refused_address", "host_mismatch", "not_tls", "no_server_name", "server_name_mismatch", "encrypted_hello"], _Word]
"""Why a network request was denied. Shown after the host, as in `Denial`."""


class Denial(Model):
    """A denied network request of a session."""

    host: str
    """The requested host: printable ASCII, other bytes as `\\xNN`, at most 255 bytes."""

    port: int
    """The requested port."""

    reason: DeniedReason
    """The reason."""


class EditPreview(Model):
    """Code as an approval would show it."""

    shown: ShownSubject


Stream = Annotated[Literal["stdout", "stderr"], _Word]
"""One of the two output streams of a program."""


class StartedEvent(Model):
    """The guest has received the cell."""

    type: Literal["started"]

    cell: int
    """Its number in the session, counted from 1."""


class OutputEvent(Model):
    """Text the program wrote, in the order it was written."""

    type: Literal["output"]

    stream: Stream
    """Where it was written."""

    text: str
    """The text; invalid UTF-8 becomes `\\xNN`."""


class TruncatedEvent(Model):
    """The live view of a stream ends here; the outcome holds the end of the text."""

    type: Literal["truncated"]

    stream: Stream
    """The stream."""


class DisplayEvent(Display):
    """A rich output."""

    type: Literal["display"]


class CalledEvent(Model):
    """Code of the cell calls a tool and waits for the answer."""

    type: Literal["called"]

    call: CallId
    """The id of the call, for the answer."""

    tool: str
    """The tool, which is granted to the session."""

    arguments: dict[str, Any]
    """The arguments by name."""


class CallDeniedEvent(Model):
    """Code of the cell called a tool that it may not call, or with wrong arguments; the call was
    denied at once.
    """

    type: Literal["call_denied"]

    call: CallId
    """The id of the call."""

    tool: str
    """The requested name, shortened."""

    why: CallDenial
    """Why it was denied."""


class CallCancelledEvent(Model):
    """No code waits for the answer to this call any more: it cancelled the call, or the cell
    ended.
    """

    type: Literal["call_cancelled"]

    call: CallId
    """The id of the call."""


class DeniedEvent(Denial):
    """The session requested something on the network that its policy does not allow."""

    type: Literal["denied"]


class OutcomeEvent(Outcome):
    """The cell has ended."""

    type: Literal["outcome"]


EVENTS: dict[str, type[Model]] = {
    "started": StartedEvent,
    "output": OutputEvent,
    "truncated": TruncatedEvent,
    "display": DisplayEvent,
    "called": CalledEvent,
    "call_denied": CallDeniedEvent,
    "call_cancelled": CallCancelledEvent,
    "denied": DeniedEvent,
    "outcome": OutcomeEvent,
}


class Seen(Model):
    """Where a value was seen.

    - `output`: In the result of a tool.
    - `task`: In the task itself.
    """

    kind: Annotated[Literal["output", "task"], _Word]

    step: int | None = None
    """The step. Told with `output`."""

    cell: int | None = None
    """The cell, for a call of `python`. Told with `output`."""

    line: str | None = None
    """The line of the output that has it. Told with `output`."""

    rounded: bool | None = None
    """Whether the output has more digits. Told with `output`."""


class Evidence(Model):
    """A number or a quoted text in an answer."""

    value: str
    """As it stands in the answer."""

    seen: Seen | None = None
    """Where it was seen; left out if nowhere."""


class ExampleFile(Model):
    """A file that a run of an example starts with."""

    contents: str
    """As base64."""

    name: str


class InLanguages(Model):
    """A text in each language."""

    en: str

    zh: str


class ExampleView(Model):
    """A task that the demonstration knows."""

    files: list[ExampleFile]

    id: str

    task: InLanguages

    title: InLanguages


class ExitReason(Model):
    """Why a run ended.

    - `answered`: The model answered.
    - `model_failed`: The request to the model failed.
    - `not_understood`: The model's replies could not be understood, several times in a row.
    - `repetition`: It repeated the same actions.
    - `budget`: A part of the budget was used up.
    - `stopped`: The caller ended it.
    """

    kind: Annotated[Literal["answered", "model_failed", "not_understood", "repetition", "budget", "stopped"], _Word]

    error: str | None = None
    """Why. Told with `model_failed`."""

    part: BudgetPart | None = None
    """Which. Told with `budget`."""


FileKind = Annotated[Literal["file", "directory", "other"], _Word]
"""What something in a workspace is."""


class FileView(Model):
    """Something in a workspace."""

    kind: FileKind

    path: str
    """Relative to the workspace."""

    size: int
    """Bytes, for a file."""


class FileList(Model):
    """What is in a workspace."""

    files: list[FileView]
    """Sorted by path."""

    truncated: bool
    """Whether there is more than a listing holds."""


class LimitsView(Model):
    """Limits of a session."""

    cpu_time_ms: int | None = None

    memory_bytes: int

    milli_cpus: int

    processes: int

    transfer_bytes: int

    wall_time_ms: int

    workspace_bytes: int


SessionState = Annotated[Literal["awake", "hibernated", "ended"], _Word]
"""What a session is doing."""


class UseView(Model):
    """What a session uses, its frozen copies included."""

    cpu_ms: int | None = None
    """Processor time since it was started or woken."""

    memory_bytes: int | None = None
    """Memory of everything in the session, its files included."""

    processes: int | None = None
    """Processes and threads."""


class SessionView(Model):
    """A session."""

    allow: list[str]
    """Hosts that it may reach."""

    busy: bool
    """Whether a cell runs."""

    cells: int
    """The number of the last cell that has begun."""

    checkpoints: CheckpointPolicy

    created_at: int
    """Seconds since 1970."""

    environment: str
    """The environment that it started from."""

    forked_from: str | None = None
    """The session that it is a fork of."""

    id: str

    limits: LimitsView

    state: SessionState

    use: UseView | None = None


class Forks(Model):
    """The sessions that were made."""

    sessions: list[SessionView]


class Interrupted(Model):
    """Whether a cell was interrupted."""

    interrupted: bool
    """False if no cell ran."""


Language = Annotated[Literal["english", "chinese"], _Word]
"""A language of text for people or models."""


class Reason(Model):
    """What was left out, and why."""

    name: str

    why: str


class LeftOut(Model):
    """What a snapshot does not hold."""

    bytes: int
    """Bytes of the snapshot."""

    files: list[Reason]
    """Files that were not saved; where there are more than 1,000, as with names."""

    names: list[Reason]
    """Names that were not saved; where there are more than 1,000, the last entry has no name and says how many."""


class Manifest(Model):
    """The names of a namespace."""

    names: list[NameInfo]


class Me(Model):
    """Whose key it is, and what it is good for."""

    budget: Budget

    demo: bool
    """Whether the service is a demonstration."""

    is_admin_address: bool
    """Whether this address is for those who administer: it has `/v1/admin`, but neither runs nor sessions."""

    models: list[str]
    """The models that runs may have, the usual one first."""

    scopes: list[str]
    """What the key may do."""

    tenant: str

    version: str
    """Of the service."""


class NotKept(Model):
    """A file that could not be kept."""

    path: str
    """Its path in the workspace."""

    why: str
    """Why it is missing."""


class ParentView(Model):
    """The run that another one goes on from."""

    id: str

    step: int
    """The last of its steps that counts."""


Policy = Annotated[Literal["never", "risky", "always"], _Word]
"""When approval is needed, from the weakest to the strictest."""


Quota = Annotated[Literal["sessions", "runs", "creates_per_second", "requests_per_second", "memory_bytes", "disk_bytes", "cpu_ms", "output_bytes", "egress_bytes", "events", "tokens", "money_micros"], _Word]
"""One thing that a tenant may use so much of."""


class QuotaUse(Model):
    """A quota that is used up, as a client is told."""

    limit: int

    name: Quota

    resets_at: int | None = None
    """When it is counted anew, in seconds since 1970, where it is counted for a day."""

    used: int


class Problem(Model):
    """A problem as it stands in an answer, as RFC 9457 has it."""

    code: str
    """What went wrong, in one word that never changes."""

    detail: str
    """What went wrong this time."""

    quota: QuotaUse | None = None

    retry: bool
    """Whether the same request may succeed later."""

    status: int
    """The status of the answer."""

    title: str
    """What the code means."""

    type: str
    """Where the page about this code is, on this server."""


RunState = Annotated[Literal["running", "waits", "answered", "ended", "interrupted"], _Word]
"""How a run is."""


class RunBrief(Model):
    """A run in a list."""

    created_at: int
    """Seconds since 1970."""

    id: str

    model: str

    parent: ParentView | None = None

    state: RunState

    task: str


class RunPage(Model):
    """A page of runs."""

    next_cursor: str | None = None
    """Where the next page begins; not there on the last one."""

    runs: list[RunBrief]


class Spent(Model):
    """What a run has used."""

    steps: int
    """Turns of the model."""

    input_tokens: int
    """Input tokens."""

    output_tokens: int
    """Output tokens."""

    money: float
    """Money."""

    model_ms: int
    """Milliseconds of the model."""

    tool_ms: int
    """Milliseconds of tools."""

    calls: int
    """Tool calls."""

    cell_calls: int | None = None
    """Tool calls by code of cells."""

    repeats: int
    """Rollbacks."""


class RunView(RunBrief):
    """A run."""

    answer: str | None = None
    """The answer, or the best there is."""

    approvals: Policy

    artifacts: list[Artifact]

    budget: Budget

    events: int
    """How many events it has."""

    evidence: list[Evidence]

    language: Language

    not_kept: list[NotKept] | None = None

    not_kept_more: int | None = None
    """How many more could not be kept."""

    reason: ExitReason | None = None

    spent: Spent

    waits_for: list[Approval]


class SessionPage(Model):
    """A page of sessions."""

    next_cursor: str | None = None
    """Where the next page begins; not there on the last one."""

    sessions: list[SessionView]


class StepView(Model):
    """One turn of the model as it was understood, and what it caused."""

    calls: list[CallView]
    """What it asked for, in its order."""

    note: str | None = None
    """What the model was told about it, such as why its code was not run."""

    number: int
    """Counted from 1."""

    thought: str | None = None
    """What the model thought, where it said so."""

    understood: bool
    """False where nothing in the reply could be understood."""


class StepPage(Model):
    """Steps of a run."""

    more: bool
    """Whether there are further steps."""

    steps: list[StepView]
