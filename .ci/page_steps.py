"""Steps that call the methods of another API, and the page that lists the methods: each names all of the other's.

The page has a table below "Served" and one below "Refused". Every method in them is called, and works or is refused as
the page says.
"""

import contextlib
import io
import os
import re
import tempfile

steps = []


def works(*methods):
    """A step that calls these methods, which work."""
    return _step("works", methods)


def refused(*methods):
    """A step that calls these methods, which are refused."""
    return _step("refused", methods)


def _step(kind, methods):
    def register(function):
        steps.append((function, kind, methods))
        return function

    return register


def check(page):
    """Compares the steps with the tables of the page."""
    named = {method: kind for _, kind, methods in steps for method in methods}
    listed = {}
    for heading, kind in [("Served", "works"), ("Refused", "refused")]:
        section = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
        for row in re.findall(r"^\| (`.*?) \|", section, re.M):
            listed.update(dict.fromkeys(re.findall(r"`([^`]+)`", row), kind))
    assert named == listed, {name: (named.get(name), listed.get(name)) for name in named.keys() | listed.keys()}


def run_examples(page):
    """Runs the Python examples of the page."""
    for example in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(example, str(page), "exec"), {})


def run_programs(page, client):
    """Runs the programs of the page for one client. Each prints the next text of the page."""
    blocks = re.findall(r"^```(\S+)\n(.*?)^```$", page.read_text(), re.S | re.M)
    programs = [at for at, (kind, _) in enumerate(blocks) if kind == f"python,{client}"]
    assert programs, client
    for at in programs:
        expected = next(text for kind, text in blocks[at:] if kind == "text")
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(io.StringIO()) as printed:
            os.chdir(directory)
            try:
                exec(compile(blocks[at][1], str(page), "exec"), {})
            finally:
                os.chdir(before)
        assert printed.getvalue() == expected, (blocks[at][1], printed.getvalue())
