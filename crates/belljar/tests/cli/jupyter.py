"""Checks what `belljar runs` writes with the parts of Jupyter.

jupyter.py notebook FILE        it is valid, and run again it prints the same
jupyter.py events SCHEMA FILE   each line is an event as the schema says
jupyter.py corpus FILE          run by a kernel, notebooks print what the file says that sessions printed
"""

import asyncio
import json
import os
import re
import sys
import tempfile

import jsonschema
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient


def printed(cell):
    """What a reader of the notebook sees below a cell, without what differs from host to host."""
    stdout, shown, images, error = "", [], 0, None
    for output in cell.outputs:
        if output.output_type == "stream":
            stdout += output.text if output.name == "stdout" else ""
        elif output.output_type == "error":
            error = output.ename
        else:
            shown.append(output.data.get("text/plain"))
            images += "image/png" in output.data
    return {"stdout": stdout, "shown": shown, "images": images, "error": error}


def notebook(path):
    before = nbformat.read(path, as_version=4)
    nbformat.validate(before)
    again = nbformat.from_dict(json.loads(json.dumps(before)))
    # Over TCP, the ports that the client chose may be taken before the kernel binds them.
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
    NotebookClient(again, km=kernel, timeout=60).execute()
    cells = 0
    for old, new in zip(before.cells, again.cells):
        if old.cell_type == "code":
            cells += 1
            if printed(old) != printed(new):
                sys.exit(f"{old.source}\n--- then: {printed(old)}\n--- now:  {printed(new)}")
    print(cells, "cells, the same")


TIMES = re.compile(r"(CPU times: |Wall time: ).*|.* per loop \(mean ± std. dev. of (.*)\)")


def plain(text):
    """Of a redrawn line its last state, without what no two runs have in common."""
    lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
    # What IPython says of some timings and not of others.
    lines = [TIMES.sub(r"\1\2", line) for line in lines if not line.startswith("The slowest run took ")]
    return "\n".join(re.sub(r" \[[^]]*(it/s|s/it|\?it)\]", "", line) for line in lines)


class Answering(NotebookClient):
    """Answers `input()` and `getpass()` of a cell with the lines in its metadata."""

    async def async_execute_cell(self, cell, *args, **options):
        answers = cell.metadata.get("answers", [])
        self.kc.allow_stdin = bool(answers)
        self.asked = getattr(self, "asked", {})
        answering = asyncio.create_task(self.answer(self.asked.setdefault(cell.id, []), answers))
        try:
            return await super().async_execute_cell(cell, *args, **options)
        finally:
            answering.cancel()

    async def answer(self, asked, answers):
        for line in answers:
            question = (await self.kc.get_stdin_msg())["content"]
            asked.append([question["prompt"], question["password"]])
            self.kc.input(line)


def seen(cell, asked):
    """What a reader sees below a cell that a kernel has run, as the results of sessions have it."""
    streams, shown, images, error = {"stdout": "", "stderr": ""}, [], 0, None
    for output in cell.outputs:
        if output.output_type == "stream":
            streams[output.name] += output.text
        elif output.output_type == "error":
            error = output.ename
        else:
            shown.append(output.data.get("text/plain"))
            images += "image/png" in output.data
    # The kernel prints it instead.
    if error is None and streams["stderr"].startswith("UsageError"):
        error, streams["stderr"] = "UsageError", ""
    return {**streams, "shown": shown, "images": images, "error": error, "asked": asked}


def corpus(path):
    with open(path) as file:
        results = json.load(file)
    count, differences = 0, []
    for path, expected in results.items():
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
        with tempfile.TemporaryDirectory() as place:
            # The names of the kernel's sockets are relative.
            os.chdir(place)
            client = Answering(book, km=kernel, timeout=120, allow_errors=True)
            client.execute()
            os.chdir("/")
        cells = [cell for cell in book.cells if cell.cell_type == "code"]
        for cell, session in zip(cells, expected, strict=True):
            count += 1
            ours, theirs = session, seen(cell, client.asked[cell.id])
            for one in (ours, theirs):
                for stream in ("stdout", "stderr"):
                    # Packages are installed by the host, which has other words for it.
                    one[stream] = "" if re.search(r"^[%!]pip ", cell.source, re.M) else plain(one[stream])
            if ours != theirs:
                differences.append(f"{path}\n{cell.source}\n--- session: {ours}\n--- kernel:  {theirs}\n")
    if differences:
        sys.exit("\n".join(differences))
    print(f"{len(results)} notebooks, {count} cells, the same")


def events(schema, path):
    with open(schema) as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with open(path) as file:
        for line in file:
            validator.validate(json.loads(line))
    # One that is none is refused.
    if validator.is_valid({"kind": "ended"}) or validator.is_valid({"kind": "other"}):
        sys.exit("the schema takes anything")


{"notebook": notebook, "events": events, "corpus": corpus}[sys.argv[1]](*sys.argv[2:])
