"""What models have beside their fields: outcomes and displays as text and in notebooks, approvals as text.

What comes from a session was made by code that nobody has read. Nothing of it is run or loaded here: text is
escaped, tables are drawn from their data, images are images, and any other HTML stands in a frame without
scripts, without the network, and without a way to the page around it.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from ._errors import CellFailed
from ._mime import IMAGES, TABLE

if TYPE_CHECKING:
    from .models import Display, DisplayData, ExceptionInfo, Finding, Outcome, Output, ShownRow

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
    def table(self) -> dict[str, Any] | None:
        """The rows and columns of a table, as many as are shown."""
        data = self.data(TABLE)
        try:
            table = None if data is None else json.loads(data)
        except ValueError:
            return None
        return table if isinstance(table, dict) else None

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
        """Output and displays of the cell as text, without terminal sequences."""
        parts = [self.transcript, *(display.text or "" for display in self.displays)]
        if not self.ok:
            parts.append(str(CellFailed(self)))  # type: ignore[arg-type]
        return safe("\n".join(part.rstrip("\n") for part in parts if part))

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


def _draw_table(table: dict[str, Any] | None) -> str | None:
    if table is None:
        return None
    try:
        head = "".join(f"<th>{html.escape(str(column['name']))}</th>" for column in table["columns"])
        rows = [
            f"<tr><th>{_cell(index)}</th>{''.join(f'<td>{_cell(one)}</td>' for one in row)}</tr>"
            for index, row in zip(table["index"], table["rows"])
        ]
        size = f"{int(table['total_rows'])} rows × {int(table['total_columns'])} columns"
    except (KeyError, TypeError, ValueError):
        return None
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
