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
"""What code can do."""


class Finding(Model):
    """A place in the code that shows a capability."""

    line: int
    """The line, counted from 1 by line feeds."""

    capability: Capability
    """What it can do."""

    what: str
    """What stands there: the function by its full name, and the text that it is given."""


class Risk(Model):
    """What a cell may do."""

    findings: list[Finding]
    """Where that was seen, by line. What is found several times stands at its first line."""

    imports: list[str]
    """The modules that it imports: of dotted names the first part."""


class Subject(Model):
    """What is to be approved.

    - `cell`: That a cell runs.
    - `call`: That a tool is called: by code which runs, or by the model itself.
    """

    kind: Annotated[Literal["cell", "call"], _Word]

    code: str | None = None
    """All of it. Told with `cell`."""

    risk: Risk | None = None
    """What it may do. Told with `cell`."""

    number: int | None = None
    """Its number among the calls of the cell, from 1; 0 for a call of the model. Told with `call`."""

    tool: str | None = None
    """The tool. Told with `call`."""

    arguments: dict[str, Any] | None = None
    """The arguments. Told with `call`."""


class ShownPart(Model):
    """A piece of a row."""

    text: str
    """To be shown as it is: letters, signs and single spaces, and nothing that acts on other text."""

    odd: bool | None = None
    """Whether it stands for something that can't be seen or deceives, as `\\u{202e}`, or for much of the same, as
    `⟨40 empty lines⟩`.
    """


class ShownRow(Model):
    """A line as a person sees it, or a part of a long one, or several that have nothing on them."""

    line: int | None = None
    """The number of the line that begins here; nothing where a row continues the one before it."""

    parts: list[ShownPart]
    """What stands there, from left to right."""


class ShownSubject(ShownMethods, Model):
    """What a person sees of what is to be approved: all of it, with what would hide or deceive written out."""

    tool: str | None = None
    """The tool, for a call."""

    findings: list[Finding]
    """What the code may do."""

    remarks: list[str]
    """What to look out for, each in a few words. Ordinary code and arguments have nothing."""

    rows: list[ShownRow]
    """The code, or the arguments as JSON, row by row."""


class Approval(Model):
    """What a person is asked."""

    id: str
    """Names it within its run."""

    step: int
    """The step that it belongs to."""

    call: int
    """The place of the call in the step."""

    subject: Subject
    """What is to be approved."""

    hash: str
    """SHA-256 of the exact bytes of it: a decision is for these, and for nothing else."""

    shown: ShownSubject
    """What a person is to see of it. Whoever asks a person shows this, and nothing else of it."""


ArtifactChange = Annotated[Literal["created", "changed"], _Word]
"""What happened to a file."""


class Artifact(Model):
    """A file that a cell made or changed."""

    path: str
    """Path relative to the workspace."""

    size: int
    """Bytes."""

    change: ArtifactChange
    """What happened to it."""


class Budget(Model):
    """What a run may use. Whatever is reached first ends it."""

    steps: int | None = None
    """Turns of the model: 20."""

    tokens: int | None = None
    """Tokens of all requests and replies together."""

    money: float | None = None
    """Money, in the currency of the profile's prices."""

    seconds: int | None = None
    """Seconds that the model and the tools take together."""

    calls: int | None = None
    """Calls of tools: 100."""

    cell_calls: int | None = None
    """Calls of tools that the code of cells makes: 10,000. What is called beyond it is refused; the
    run goes on.
    """

    repeats: int | None = None
    """Times that it may be taken back because it went in circles: 2."""


BudgetPart = Annotated[Literal["steps", "tokens", "money", "seconds", "calls"], _Word]
"""A part of a `Budget`."""


class CallDenial(Model):
    """Why the host denied a call without asking anybody.

    - `not_granted`: The tool is not granted to this session.
    - `nobody_answers`: Whoever runs the cell does not answer calls.
    - `arguments`: The arguments are not what the tool takes.
    """

    reason: Annotated[Literal["not_granted", "nobody_answers", "arguments"], _Word]

    why: str | None = None
    """What is wrong with them. Told with `arguments`."""


class CallId(Model):
    """Which call it is: no two of one session are the same."""

    cell: int
    """Number of the cell that makes it."""

    number: int
    """Its number in the cell, counted from 1 in the order in which the code makes calls."""


class Traffic(Model):
    """What was sent to the network and got from it."""

    connections: int
    """Connections made to servers."""

    bytes_sent: int
    """Bytes sent to servers."""

    bytes_received: int
    """Bytes received from servers."""

    denials: int
    """What was denied."""

    denials_unreported: int
    """How many of the denials were only counted, because their channel was full."""


Walls = Annotated[Literal["full", "unfiltered", "none"], _Word]
"""What stood between the cell and the host."""


Status = Annotated[Literal["success", "failure", "timeout", "crashed"], _Word]
"""How a cell ended, in one word."""


class Cause(Model):
    """Why it ended.

    - `completed`: Nothing was left to run.
    - `exception`: An exception came out of the code.
    - `syntax`: The code did not compile; nothing ran.
    - `exit`: `sys.exit` (the session lives on) or `os._exit` (it does not; see `Outcome.state`).
    - `interrupted`: The caller interrupted it.
    - `wall_time`: It ran longer than its limit.
    - `cpu_time`: It used more processor time than its limit.
    - `memory`: The kernel ended it because the session's memory was used up.
    - `signal`: A signal ended it.
    - `output_limit`: It wrote more than a cell may write.
    - `protocol`: What its process sent to the host was not a valid answer.
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
    """What was wrong. Told with `protocol`."""


class Fate(Model):
    """What became of the session's variables.

    - `kept`: They are as the cell left them.
    - `restored`: They are as they were after the named cell.
    - `lost`: They are gone; the session has ended.
    """

    fate: Annotated[Literal["kept", "restored", "lost"], _Word]

    cell: int | None = None
    """The cell after which they were kept; 0 before the first one. Told with `restored`."""


class ExceptionInfo(Model):
    """An exception as Python told it."""

    type: str
    """Name of its type, with the module unless that is `builtins` or `__main__`."""

    value: str
    """`str()` of it."""

    repr: str
    """`repr()` of it."""

    traceback: str
    """The traceback without the machinery's own frames."""

    line: int | None = None
    """The line of this cell where it came from."""


class Output(Model):
    """What was written to one stream."""

    text: str
    """The text, cut in the middle with a mark where it was too long."""

    bytes: int
    """Bytes that were written."""

    omitted_bytes: int
    """Bytes that `text` leaves out."""

    file: str | None = None
    """Where the whole is kept while the session lives, if `text` is not all."""

    file_truncated: bool | None = None
    """Whether that file has all of it."""


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
    """What a cell did to the namespace."""

    added: list[NameInfo] = Field(default_factory=list)
    """Names that are new."""

    changed: list[NameInfo] = Field(default_factory=list)
    """Names bound to another value, or whose length or shape changed."""

    removed: list[str] = Field(default_factory=list)
    """Names that are gone."""


class Durations(Model):
    """Where the time went."""

    total_us: int
    """From the request to the outcome, as the host saw it."""

    run_us: int
    """From the first to the last statement, as the guest saw it; 0 if it never said."""

    cpu_us: int
    """Processor time of everything in the session, as the kernel counted it."""


class Outcome(OutcomeMethods, Model):
    """The result of a cell."""

    cell: int
    """Number of the cell in its session, counted from 1."""

    network: Traffic | None = None
    """What its session sent to the network and got from there since the last outcome, where it
    may reach any.
    """

    walls: Walls | None = None
    """What stood between it and the host; told where that is less than everything."""

    status: Status
    """How it ended."""

    cause: Cause
    """Why."""

    state: Fate
    """What became of the variables."""

    exit_code: int
    """0 where the process lives on; its exit code, or minus the signal's number, where it died."""

    exception: ExceptionInfo | None = None
    """The exception, where one came out of the code."""

    package: str | None = None
    """The package that has the module which was not found, where the session may install it."""

    stdout_output: Output = Field(alias="stdout")
    """What was written to descriptor 1."""

    stderr_output: Output = Field(alias="stderr")
    """What was written to descriptor 2."""

    transcript: str
    """Both, in the order they were written, as a terminal would show them."""

    displays: list[Display] = Field(default_factory=list)
    """Rich outputs, in order."""

    artifacts: list[Artifact] = Field(default_factory=list)
    """Files the cell created or changed."""

    changes: Changes = Field(default_factory=Changes)
    """What it did to the namespace."""

    dropped: list[str] = Field(default_factory=list)
    """What was left out of this outcome, and why; and what the session lacks since it was restored,
    or since it slept before this cell.
    """

    durations: Durations
    """Where the time went."""

    peak_memory_bytes: int | None = None
    """The most memory the session held during the cell, where the kernel tells."""


class CallView(Model):
    """A tool call."""

    arguments: dict[str, Any]
    """Arguments; for a cell, `code` as executed, including edits by a person."""

    outcome: Outcome | None = None

    told: str | None = None
    """Note for the model instead of an outcome, such as why code was not run."""

    tool: str


CellState = Annotated[Literal["running", "done", "failed"], _Word]
"""State of a cell."""


class CellView(Model):
    """A running or ended cell."""

    cell: int
    """Number of the cell in its session."""

    events: int
    """Number of events so far."""

    outcome: Outcome | None = None

    state: CellState


class CellList(Model):
    """The cells that a session keeps."""

    cells: list[CellView]
    """Oldest first, without outcomes."""


class CheckpointView(Model):
    """A checkpoint of a session."""

    cell: int
    """Cell after which it was made; 0 before the first cell."""

    memory_bytes: int | None = None
    """Memory that only this checkpoint holds, in bytes."""

    name: str | None = None
    """Name of the checkpoint, if it has one."""


class CheckpointList(Model):
    """The checkpoints of a session."""

    checkpoints: list[CheckpointView]
    """Newest last."""


CheckpointPolicy = Annotated[Literal["off", "auto", "every"], _Word]
"""When checkpoints of a session are made."""


DeniedReason = Annotated[Literal["not_listed", "address_literal", "invalid_name", "refused_address", "host_mismatch", "not_tls", "no_server_name", "server_name_mismatch", "encrypted_hello"], _Word]
"""Why a session did not get what it asked for. Shown after the host, as in `Denial`."""


class Denial(Model):
    """Something that a session asked for and did not get."""

    host: str
    """The host that was asked for: printable ASCII, other bytes as `\\xNN`, at most 255 bytes."""

    port: int
    """The port that was asked for."""

    reason: DeniedReason
    """Why not."""


class EditPreview(Model):
    """Code in the view of an approval."""

    shown: ShownSubject


Stream = Annotated[Literal["stdout", "stderr"], _Word]
"""One of the two output streams of a program."""


class StartedEvent(Model):
    """The cell was handed to the guest."""

    type: Literal["started"]

    cell: int
    """Its number in the session, counted from 1."""


class OutputEvent(Model):
    """Text the program wrote, in the order it was written."""

    type: Literal["output"]

    stream: Stream
    """Where it was written."""

    text: str
    """The text; invalid UTF-8 stands as `\\xNN`."""


class TruncatedEvent(Model):
    """The live view of a stream ends here; the outcome holds the end of the text."""

    type: Literal["truncated"]

    stream: Stream
    """The stream that said too much."""


class DisplayEvent(Display):
    """A rich output."""

    type: Literal["display"]


class CalledEvent(Model):
    """Code of the cell calls a tool and waits for the answer."""

    type: Literal["called"]

    call: CallId
    """Which call it is, to answer by."""

    tool: str
    """The tool, which is granted to the session."""

    arguments: dict[str, Any]
    """The arguments by name."""


class CallDeniedEvent(Model):
    """Code of the cell called a tool that it may not call, or not so; it was told so at once."""

    type: Literal["call_denied"]

    call: CallId
    """Which call it was."""

    tool: str
    """What it called, in its words, cut short."""

    why: CallDenial
    """Why it was denied."""


class CallCancelledEvent(Model):
    """Nobody waits for the answer to this call any more: the code gave it up, or the cell ended."""

    type: Literal["call_cancelled"]

    call: CallId
    """Which call it was."""


class DeniedEvent(Denial):
    """The session asked for something on the network that its policy does not allow."""

    type: Literal["denied"]


class OutcomeEvent(Outcome):
    """The cell is over."""

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

    - `output`: In what a tool gave.
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
    """A number, or a text in quotes, that stands in an answer."""

    value: str
    """As it stands in the answer."""

    seen: Seen | None = None
    """Where it was seen; nowhere if that is not there."""


class ExampleFile(Model):
    """A file of an example task."""

    contents: str
    """Contents, as base64."""

    name: str


class InLanguages(Model):
    """A text in each language."""

    en: str

    zh: str


class ExampleView(Model):
    """An example task of demo mode."""

    files: list[ExampleFile]

    id: str

    task: InLanguages

    title: InLanguages


class ExitReason(Model):
    """Why a run ended.

    - `answered`: The model answered.
    - `model_failed`: The model could not be asked.
    - `not_understood`: What the model wrote could not be understood, several times in a row.
    - `went_in_circles`: It did the same again and again.
    - `budget`: A part of the budget was used up.
    - `stopped`: The caller ended it.
    """

    kind: Annotated[Literal["answered", "model_failed", "not_understood", "went_in_circles", "budget", "stopped"], _Word]

    error: str | None = None
    """Why. Told with `model_failed`."""

    part: BudgetPart | None = None
    """Which. Told with `budget`."""


FileKind = Annotated[Literal["file", "directory", "other"], _Word]
"""Kind of an entry."""


class FileView(Model):
    """An entry of a workspace."""

    kind: FileKind

    path: str
    """Path, relative to the workspace."""

    size: int
    """Size of a file, in bytes."""


class FileList(Model):
    """The entries of a workspace."""

    files: list[FileView]
    """Sorted by path."""

    truncated: bool
    """Whether the listing is truncated."""


class LimitsView(Model):
    """Limits of a session."""

    cpu_time_ms: int | None = None

    memory_bytes: int

    milli_cpus: int

    processes: int

    transfer_bytes: int

    wall_time_ms: int

    workspace_bytes: int


SessionState = Annotated[Literal["awake", "asleep", "ended"], _Word]
"""State of a session."""


class UseView(Model):
    """Resource use of a session, including its checkpoints."""

    cpu_ms: int | None = None
    """CPU time since the session started or woke, in milliseconds."""

    memory_bytes: int | None = None
    """Memory of the session, including its files, in bytes."""

    processes: int | None = None
    """Number of processes and threads."""


class SessionView(Model):
    """A session."""

    allow: list[str]
    """Hosts that the session may reach."""

    busy: bool
    """Whether a cell is running."""

    cells: int
    """Number of the last started cell."""

    checkpoints: CheckpointPolicy

    created_at: int
    """Creation time, in seconds since 1970."""

    environment: str
    """Environment of the session."""

    forked_from: str | None = None
    """Id of the session that this is a fork of."""

    id: str

    limits: LimitsView

    state: SessionState

    use: UseView | None = None


class Forks(Model):
    """The new sessions."""

    sessions: list[SessionView]


class Interrupted(Model):
    """Whether a cell was interrupted."""

    interrupted: bool
    """False if no cell was running."""


Language = Annotated[Literal["english", "chinese"], _Word]
"""A language for text that meets people or models."""


class Reason(Model):
    """An omitted name or file, with the reason."""

    name: str

    why: str


class LeftOut(Model):
    """Names and files that a snapshot lacks."""

    bytes: int
    """Size of the snapshot, in bytes."""

    files: list[Reason]
    """Files that were not saved. After 1,000 entries, as with names."""

    names: list[Reason]
    """Names that were not saved. After 1,000 entries, a last one without name has the number of the rest."""


class Manifest(Model):
    """Names in a namespace."""

    names: list[NameInfo]


class Me(Model):
    """Tenant and rights of a key."""

    budget: Budget

    demo: bool
    """Whether the service is in demo mode."""

    is_admin_address: bool
    """Whether this is the admin address, which has `/v1/admin`, but neither runs nor sessions."""

    models: list[str]
    """Models for runs, the default first."""

    scopes: list[str]
    """Scopes of the key."""

    tenant: str

    version: str
    """Version of the service."""


class NotKept(Model):
    """A file that could not be kept."""

    path: str
    """Its path in the workspace."""

    why: str
    """Why it is not there."""


class ParentView(Model):
    """The run that another one continues."""

    id: str

    step: int
    """Last step that the new run keeps."""


Policy = Annotated[Literal["never", "risky", "always"], _Word]
"""When a person is asked: the later, the more often."""


Quota = Annotated[Literal["sessions", "runs", "creates_per_second", "requests_per_second", "memory_bytes", "disk_bytes", "cpu_ms", "output_bytes", "egress_bytes", "events", "tokens", "money_micros"], _Word]
"""A quota of a tenant."""


class QuotaUse(Model):
    """An exceeded quota, in a response."""

    limit: int

    name: Quota

    resets_at: int | None = None
    """Time of the reset of a daily quota, in seconds since 1970."""

    used: int


class Problem(Model):
    """A problem in a response (RFC 9457)."""

    code: str
    """Stable code of a problem."""

    detail: str
    """Cause of this problem."""

    quota: QuotaUse | None = None

    retry: bool
    """Whether the same request may succeed later."""

    status: int
    """HTTP status of the response."""

    title: str
    """Meaning of the code."""

    type: str
    """Path of the page about this code, on this server."""


RunState = Annotated[Literal["running", "waits", "answered", "ended", "interrupted"], _Word]
"""State of a run."""


class RunBrief(Model):
    """A run in a list."""

    created_at: int
    """Creation time, in seconds since 1970."""

    id: str

    model: str

    parent: ParentView | None = None

    state: RunState

    task: str


class RunPage(Model):
    """A page of runs."""

    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""

    runs: list[RunBrief]


class Spent(Model):
    """What a run has used."""

    steps: int
    """Turns of the model."""

    input_tokens: int
    """Tokens that the model read."""

    output_tokens: int
    """Tokens that it wrote."""

    money: float
    """Money."""

    model_ms: int
    """Milliseconds of the model."""

    tool_ms: int
    """Milliseconds of tools."""

    calls: int
    """Calls of tools."""

    cell_calls: int | None = None
    """Calls of tools that the code of cells made."""

    repeats: int
    """Times that it was taken back."""


class RunView(RunBrief):
    """A run."""

    answer: str | None = None
    """Answer, or the best one so far."""

    approvals: Policy

    artifacts: list[Artifact]

    budget: Budget

    events: int
    """Number of events."""

    evidence: list[Evidence]

    language: Language

    not_kept: list[NotKept] | None = None

    not_kept_more: int | None = None
    """Number of further files that were not kept."""

    reason: ExitReason | None = None

    spent: Spent

    waits_for: list[Approval]


class SessionPage(Model):
    """A page of sessions."""

    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""

    sessions: list[SessionView]


class StepView(Model):
    """One turn of the model as parsed, and its effects."""

    calls: list[CallView]
    """Tool calls, in order."""

    note: str | None = None
    """Note for the model, such as why its code was not run."""

    number: int
    """Number of the step, from 1."""

    thought: str | None = None
    """Thoughts of the model, if it gave any."""

    understood: bool
    """False if the reply was not understood."""


class StepPage(Model):
    """Steps of a run."""

    more: bool
    """Whether more steps follow."""

    steps: list[StepView]
