#!/usr/bin/env python3
"""Compares the tests of a tier with the list of those that differ there: see .ci/tiers.

A test that fails needs a row of the list, and must fail as the row says. A test that has a row must not pass, and a row
must have a test: so the list can't grow stale.
"""
import collections
import fnmatch
import pathlib
import sys
import xml.etree.ElementTree as xml

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
RESULTS = ("differs", "not there", "varies", "holds")
DIRECTORY = pathlib.Path("crates/belljar-sandbox/tests/tiers")
Row = collections.namedtuple("Row", "tiers tests result why says")


def rows():
    for number, line in enumerate((DIRECTORY / "list.txt").read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 5 or cells[2] not in RESULTS:
            sys.exit(f"list.txt, line {number}: not tiers | tests | result | why | says")
        tiers = OTHER_WALLS if cells[0] == "all" else cells[0].split()
        if set(tiers) - set(TIERS):
            sys.exit(f"list.txt, line {number}: no such tier")
        yield Row(tiers, cells[1].split(), *cells[2:])


def results(junit):
    """Each test with its output if it failed."""
    for suite in xml.parse(junit).getroot():
        for case in suite.findall("testcase"):
            name = f"{suite.get('name').rpartition('::')[2]}::{case.get('name')}"
            failure = case.find("failure")
            if failure is None:
                failure = case.find("error")
            yield name, None if failure is None else " ".join(case.itertext())


def check(tier, junit, part):
    known = [row for row in rows() if tier in row.tiers]
    counts, faults, used = collections.defaultdict(collections.Counter), [], set()
    for name, output in sorted(results(junit)):
        # The first row counts.
        found = next(
            ((row, test) for row in known for test in row.tests if fnmatch.fnmatchcase(name, test)),
            (None, None),
        )
        row, test = found
        used.add(test)
        result = "holds" if row is None else row.result
        if result == "varies":
            # Whether it is fast enough depends on the machine.
            result = "holds" if output is None else "differs"
        elif output is None and result != "holds":
            faults.append(f"{name}: passes, but the list says: {row.why}")
        elif output is not None and result == "holds":
            faults.append(f"{name}: fails, and has no row")
        if output is not None and row is not None and row.says not in output:
            faults.append(f"{name}: fails, but without “{row.says}”")
        counts[name.rpartition("::")[0]][result] += 1
    if not part:
        for row in known:
            for test in row.tests:
                if test not in used:
                    faults.append(f"{test}: no such test")
        kinds = ("holds", "differs", "not there")
        lines = (f"{module} {' '.join(str(of[kind]) for kind in kinds)}\n" for module, of in sorted(counts.items()))
        (DIRECTORY / f"{tier}.counts").write_text("".join(lines))
    total = sum(counts.values(), collections.Counter())
    print(f"{tier}: {total['holds']} held, {total['differs']} differ, {total['not there']} not there")
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


def counted(tier):
    """The last counts of a tier, by section: held, differs, not there."""
    path = DIRECTORY / f"{tier}.counts"
    sections = collections.defaultdict(lambda: [0, 0, 0])
    for line in path.read_text().splitlines() if path.exists() else []:
        module, *numbers = line.split()
        for index, count in enumerate(numbers):
            sections[module.partition("::")[0]][index] += int(count)
    return sections


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
    tested = [tier for tier in TIERS if counted(tier)]
    for tier in tested:
        for suite, name in (("it", "sessions"), ("attacks", "attacks")):
            held, differs, absent = counted(tier)[suite]
            text += f"| {TIERS[tier]} | {name} | {held} | {differs} | {absent} |\n"
    text += "\n## Differences\n\n| tests | tiers | result | why |\n|---|---|---|---|\n"
    for row in rows():
        if row.result == "holds" or not set(tested) & set(row.tiers):
            continue
        tiers = ", ".join(TIERS[tier] for tier in tested if tier in row.tiers)
        if set(tested) & set(OTHER_WALLS) <= set(row.tiers):
            tiers = tiers if "fresh" in row.tiers else "all other walls"
        tests = " ".join(f"`{test.replace('|', chr(92) + '|')}`" for test in row.tests)
        text += f"| {tests} | {tiers} | {row.result} | {row.why} |\n"
    pathlib.Path("docs/tiers.md").write_text(text)


if sys.argv[1] == "--page":
    page()
else:
    sys.exit(check(sys.argv[1], sys.argv[2], "--part" in sys.argv))
