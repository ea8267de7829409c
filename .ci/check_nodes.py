#!/usr/bin/env python3
"""Compares the tests of the service on three nodes with the list of those that differ there, and writes the section of
docs/cluster.md: see .ci/nodes."""
import pathlib
import sys

from differences import Differences, patterns

PLACE = "nodes"
DIFFERENCES = Differences(pathlib.Path("crates/belljar-server/tests/nodes"), [PLACE], [PLACE])
HEADING = "## Suite on three nodes\n"

INTRODUCTION = """
```console
$ .ci/nodes
```

The tests of the service run against one node with SQLite, and again against three nodes with PostgreSQL and an object store. The
tests say nothing of it. Each connection of a client leads to the next node, as by way of a load balancer, so most requests are
passed on. A restart is one of all three. A list names each test that differs, with the reason; the command fails if the list and
the results differ in either direction. Tests that begin nodes themselves are not among them.

- **held**: the test passes as it is.
- **differs**: the cluster does it in another way, as the row says.
- **not there**: the test looks at what only a node without a cluster has.

"""


def section():
    text = HEADING + INTRODUCTION
    for held, differs, absent in DIFFERENCES.counted(PLACE).values():
        text += f"| held | differs | not there |\n|---|---|---|\n| {held} | {differs} | {absent} |\n\n"
    text += "| tests | result | why |\n|---|---|---|\n"
    for row in DIFFERENCES.rows():
        if row.result != "holds":
            text += f"| {patterns(row)} | {row.result} | {row.why} |\n"
    page = pathlib.Path("docs/cluster.md")
    before, found, after = page.read_text().partition(HEADING)
    if not found:
        sys.exit(f"{page} has no heading: {HEADING.strip()}")
    page.write_text(before + text + "\n" + after[after.index("## ") :])


if sys.argv[1] == "--page":
    section()
else:
    sys.exit(DIFFERENCES.check(PLACE, sys.argv[1], "--part" in sys.argv))
