"""What models have beside their fields: outcomes and displays as text and in notebooks, approvals as text.

What comes from a session was made by code that nobody has read. Nothing of it is run or loaded here: text is
escaped, tables are drawn from their data, images are images, and any other HTML stands in a frame without
scripts, without the network, and without a way to the page around it.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import CellFailed
from ._mime import IMAGES, TABLE

if TYPE_CHECKING:
    import pandas

    from .models import Display, DisplayData, ExceptionInfo, Finding, Outcome, Output, ShownRow

# Characters of an outcome as text. What prints more has a file, or `stdout`.
_MOST_TEXT = 20_000
_DTYPES = re.compile(r"u?int(8|16|32|64)|float(32|64)|bool|datetime64\[(s|ms|us|ns)\]")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, the cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)"  # titles, clipboards, links
    r"|\x1b.|[\x00-\x08\x0b-\x1f\x7f-\x9f]",
    re.DOTALL,
)


def safe(text: str) -> str:
    """Text that does nothing to a terminal."""
    return _SEQUENCES.sub("", text.replace("\r\n", "\n"))


def _shortened(text: str) -> str:
    """Beginning and end of a long text."""
    if len(text) <= _MOST_TEXT:
        return text
    half = _MOST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters omitted]\n{text[-half:]}"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    dtype: str


@dataclass(frozen=True)
class Table:
    """A data frame as a display has it: its first rows and columns."""

    columns: list[Column]
    index: list[Any] | None
    rows: list[list[Any]]
    total_rows: int
    """Rows of the data frame; `rows` may have fewer."""
    total_columns: int

    @property
    def is_whole(self) -> bool:
        """Whether no rows or columns are missing."""
        return len(self.rows) >= self.total_rows and len(self.columns) >= self.total_columns

    def to_frame(self, *, partial: bool = False) -> pandas.DataFrame:
        """A pandas data frame. If rows or columns are missing, it raises `ValueError`, except with `partial`."""
        if not (self.is_whole or partial):
            raise ValueError(
                f"the display has {len(self.rows)} of {self.total_rows} rows and {len(self.columns)} of"
                f" {self.total_columns} columns: write the data frame to a file and use `files.get_frame`, or call"
                " to_frame(partial=True)"
            )
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise ImportError("data frames need pandas on this side: pip install pandas") from error
        frame = pandas.DataFrame(self.rows, columns=[column.name for column in self.columns], index=self.index)
        for place, column in enumerate(self.columns):
            # The types that JSON does not have. Names of columns may be there twice.
            if _DTYPES.fullmatch(column.dtype):
                with contextlib.suppress(TypeError, ValueError):
                    frame.isetitem(place, frame.iloc[:, place].astype(column.dtype))
        return frame

    @classmethod
    def read(cls, data: bytes) -> Table | None:
        """A table from the JSON of a display; `None` if it is not one."""
        try:
            told = json.loads(data)
            return cls(
                [Column(str(column["name"]), str(column.get("dtype", ""))) for column in told["columns"]],
                None if told.get("index") is None else list(told["index"]),
                [list(row) for row in told["rows"]],
                int(told["total_rows"]),
                int(told["total_columns"]),
            )
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
            return None


class DisplayDataMethods:
    """What a representation of a display can do."""

    if TYPE_CHECKING:
        mime: str
        text: str | None
        base64: str | None

    def __repr__(self) -> str:
        size = len(self.text or "") if self.base64 is None else 3 * len(self.base64) // 4
        return f"<{safe(self.mime)}, {size} {'characters' if self.base64 is None else 'bytes'}>"

    __str__ = __repr__


def _pre(text: str) -> str:
    return f"<pre>{html.escape(safe(text))}</pre>"


class DisplayMethods:
    """What a display can do."""

    if TYPE_CHECKING:
        parts: list[DisplayData]

    def data(self, mime: str) -> bytes | None:
        """The representation of this type, if there is one."""
        for part in self.parts:
            if part.mime == mime:
                return (part.text or "").encode() if part.base64 is None else b64decode(part.base64)
        return None

    @property
    def text(self) -> str | None:
        """As plain text."""
        data = self.data("text/plain")
        return None if data is None else data.decode(errors="replace")

    @property
    def html(self) -> str | None:
        """HTML, as the code gave it: never embed it in a page unsanitised."""
        data = self.data("text/html")
        return None if data is None else data.decode(errors="replace")

    @property
    def png(self) -> bytes | None:
        """As an image."""
        return self.data("image/png")

    @property
    def table(self) -> Table | None:
        """The first rows and columns of a data frame. `Table.to_frame` makes one of them."""
        data = self.data(TABLE)
        return None if data is None else Table.read(data)

    def __str__(self) -> str:
        """The display as text; images by their type and size."""
        if self.text is not None:
            return _shortened(safe(self.text))
        return " ".join(repr(part) for part in self.parts)

    def __repr__(self) -> str:
        return f"<Display: {', '.join(repr(part) for part in self.parts)}>"

    def _repr_html_(self) -> str:
        drawn = _draw_table(self.table)
        if drawn is not None:
            return drawn
        for mime in IMAGES:
            data = self.data(mime)
            if data is not None:
                # An image that is drawn as one runs no scripts, also where it is SVG.
                return f'<img src="data:{mime};base64,{b64encode(data).decode()}">'
        if self.html is not None:
            return _frame(self.html)
        return _pre(self.text or "")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": safe(self.text or ""), "text/html": self._repr_html_()}


class OutcomeMethods:
    """What an outcome can do."""

    if TYPE_CHECKING:
        cell: int
        status: str
        stdout_output: Output
        stderr_output: Output
        transcript: str
        displays: list[Display]
        exception: ExceptionInfo | None

    safe = staticmethod(safe)

    @property
    def ok(self) -> bool:
        """Whether the cell succeeded."""
        return self.status == "success"

    @property
    def stdout(self) -> str:
        """Text of standard output. `stdout_output` says whether it is truncated."""
        return self.stdout_output.text

    @property
    def stderr(self) -> str:
        """Text of standard error. `stderr_output` says whether it is truncated."""
        return self.stderr_output.text

    @property
    def display(self) -> Display | None:
        """The last display: an open figure comes after the value of the last expression."""
        return self.displays[-1] if self.displays else None

    @property
    def value(self) -> str | None:
        """The text of the value of the last expression; `None` if the cell does not end with one."""
        return next((display.text for display in self.displays if display.value), None)

    def raise_for_status(self: Outcome) -> Outcome:  # type: ignore[misc]
        """Returns itself on success; otherwise raises `CellFailed`."""
        if not self.ok:
            raise CellFailed(self)
        return self

    def __str__(self) -> str:
        """Output and displays of the cell as text, without terminal sequences. The middle of a long text is omitted;
        `stdout` has all of it."""
        parts = [self.transcript, *(display.text or "" for display in self.displays)]
        text = _shortened(safe("\n".join(part.rstrip("\n") for part in parts if part)))
        if self.ok:
            return text
        failure = str(CellFailed(self))  # type: ignore[arg-type]
        return f"{text}\n{_shortened(failure)}" if text else _shortened(failure)

    def __repr__(self) -> str:
        what = self.exception.repr if self.exception is not None else self.value or self.stdout
        return f"<Outcome of cell {self.cell}: {self.status}, {what if len(what) < 60 else what[:57] + '...'!r}>"

    def _repr_html_(self) -> str:
        parts = [_pre(self.transcript)] if self.transcript else []
        parts += [display._repr_html_() for display in self.displays]
        if not self.ok:
            parts.append(_pre(str(CellFailed(self))))  # type: ignore[arg-type]
        return "\n".join(parts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def _draw_table(table: Table | None) -> str | None:
    if table is None:
        return None
    head = "".join(f"<th>{html.escape(column.name)}</th>" for column in table.columns)
    index = [""] * len(table.rows) if table.index is None else table.index
    rows = [
        f"<tr><th>{_cell(name)}</th>{''.join(f'<td>{_cell(one)}</td>' for one in row)}</tr>"
        for name, row in zip(index, table.rows)
    ]
    size = f"{table.total_rows} rows × {table.total_columns} columns"
    body = "\n".join(rows)
    return f"<table>\n<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<p>{size}</p>"


def _cell(value: Any) -> str:
    return "" if value is None else html.escape(str(value))


def _frame(page: str) -> str:
    page = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">{page}'
    height = min(600, 60 + 24 * (page.count("\n") + page.count("<tr")))
    return (
        f'<iframe sandbox="" srcdoc="{html.escape(page)}" width="100%" height="{height}"'
        ' style="border: 0; background: white"></iframe>'
    )


class ShownMethods:
    """The view of an approval, as text."""

    if TYPE_CHECKING:
        tool: str | None
        findings: list[Finding]
        remarks: list[str]
        rows: list[ShownRow]

    def __str__(self) -> str:
        lines = [] if self.tool is None else [f"tool: {self.tool}"]
        lines += [f"- {found.capability}: {found.what} (line {found.line})" for found in self.findings]
        lines += [f"- warning: {remark}" for remark in self.remarks]
        for row in self.rows:
            text = "".join(part.text for part in row.parts)
            lines.append(f"     ┊ {text}" if row.line is None else f"{row.line:4} │ {text}")
        return "\n".join(lines)
