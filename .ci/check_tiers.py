#!/usr/bin/env python3
"""Compares the tests of a tier with the list of those that differ there, and writes docs/tiers.md: see .ci/tiers."""
import pathlib
import sys

from differences import Differences, patterns

TIERS = {
    "docker": "Docker",
    "runsc": "Docker with gVisor",
    "podman": "Podman",
    "tls": "Docker over TLS",
    "gvisor": "gVisor",
    "fresh": "Fresh interpreter",
}
# What `all` means in the list: those with other walls.
OTHER_WALLS = [tier for tier in TIERS if tier != "fresh"]
DIFFERENCES = Differences(pathlib.Path("crates/belljar-sandbox/tests/tiers"), TIERS, OTHER_WALLS)

INTRODUCTION = """\
# Tests on each isolation tier

The tests of the sandbox and its [attack suite](security-tests.md) run on Belljar's own walls, and again with each
session in a [container](images.md), in a [sandbox of gVisor](isolation.md), or in an interpreter of its own behind own
walls (`Backend::Fresh`: no template). The tests say nothing of tiers. A list names each test that differs on a tier, with
the reason; `.ci/tiers` runs the tests, and fails if the list and the results differ in either direction.

- **held**: the test passes as it is.
- **differs**: the tier does it in another way, weaker or stronger, as the row says.
- **not there**: the tier does not have it, and refuses it by name; or the test looks at what only own walls have.
- **varies**: whether the test passes depends on the speed of the machine. It counts by its result.

"""


def page():
    text = INTRODUCTION + "| tier | suite | held | differs | not there |\n|---|---|---|---|---|\n"
    tested = [tier for tier in TIERS if DIFFERENCES.counted(tier)]
    for tier in tested:
        for suite, name in (("it", "sessions"), ("attacks", "attacks")):
            held, differs, absent = DIFFERENCES.counted(tier)[suite]
            text += f"| {TIERS[tier]} | {name} | {held} | {differs} | {absent} |\n"
    text += "\n## Differences\n\n| tests | tiers | result | why |\n|---|---|---|---|\n"
    for row in DIFFERENCES.rows():
        if row.result == "holds" or not set(tested) & set(row.places):
            continue
        tiers = ", ".join(TIERS[tier] for tier in tested if tier in row.places)
        if set(tested) & set(OTHER_WALLS) <= set(row.places):
            tiers = tiers if "fresh" in row.places else "all other walls"
        text += f"| {patterns(row)} | {tiers} | {row.result} | {row.why} |\n"
    pathlib.Path("docs/tiers.md").write_text(text)


if sys.argv[1] == "--page":
    page()
else:
    sys.exit(DIFFERENCES.check(sys.argv[1], sys.argv[2], "--part" in sys.argv))
