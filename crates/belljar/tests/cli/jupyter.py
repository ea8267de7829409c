"""Checks what `belljar runs` writes with the parts of Jupyter.

jupyter.py notebook FILE        it is valid, and run again it prints the same
jupyter.py events SCHEMA FILE   each line is an event as the schema says
"""

import json
import sys

import jsonschema
import nbformat
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
    NotebookClient(again, timeout=60, kernel_name="python3").execute()
    cells = 0
    for old, new in zip(before.cells, again.cells):
        if old.cell_type == "code":
            cells += 1
            if printed(old) != printed(new):
                sys.exit(f"{old.source}\n--- then: {printed(old)}\n--- now:  {printed(new)}")
    print(cells, "cells, the same")


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


{"notebook": notebook, "events": events}[sys.argv[1]](*sys.argv[2:])
