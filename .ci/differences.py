"""Compares the tests of a suite that runs elsewhere with the list of those that differ there: see .ci/tiers and .ci/nodes.

A test that fails needs a row of the list, and must fail as the row says. A test that has a row must not pass, and a row
must have a test: so the list can't grow stale.
"""
import collections
import fnmatch
import sys
import xml.etree.ElementTree as xml

RESULTS = ("differs", "not there", "varies", "holds")
Row = collections.namedtuple("Row", "places tests result why says")


class Differences:
    """The list in a directory, and the counts beside it. `places` are where the suite runs; `every` are those that `all`
    means in the list. The list of a single place does not name it."""

    def __init__(self, directory, places, every):
        self.directory = directory
        self.places = places
        self.every = every

    def rows(self):
        for number, line in enumerate((self.directory / "list.txt").read_text().splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            cells = [cell.strip() for cell in line.split("|")]
            if len(self.places) == 1:
                cells.insert(0, "all")
            if len(cells) != 5 or cells[2] not in RESULTS:
                sys.exit(f"list.txt, line {number}: not {' | '.join(Row._fields)}")
            places = self.every if cells[0] == "all" else cells[0].split()
            if set(places) - set(self.places):
                sys.exit(f"list.txt, line {number}: unknown {' '.join(set(places) - set(self.places))}")
            yield Row(places, cells[1].split(), *cells[2:])

    def check(self, place, junit, part):
        known = [row for row in self.rows() if place in row.places]
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
            (self.directory / f"{place}.counts").write_text("".join(lines))
        total = sum(counts.values(), collections.Counter())
        print(f"{place}: {total['holds']} held, {total['differs']} differ, {total['not there']} not there")
        for fault in faults:
            print(f"  {fault}")
        return 1 if faults else 0

    def counted(self, place):
        """The last counts of a place, by section: held, differs, not there."""
        path = self.directory / f"{place}.counts"
        sections = collections.defaultdict(lambda: [0, 0, 0])
        for line in path.read_text().splitlines() if path.exists() else []:
            module, *numbers = line.split()
            for index, count in enumerate(numbers):
                sections[module.partition("::")[0]][index] += int(count)
        return sections


def results(junit):
    """Each test with its output if it failed."""
    for suite in xml.parse(junit).getroot():
        for case in suite.findall("testcase"):
            name = f"{suite.get('name').rpartition('::')[2]}::{case.get('name')}"
            failure = case.find("failure")
            if failure is None:
                failure = case.find("error")
            yield name, None if failure is None else " ".join(case.itertext())


def patterns(row):
    """The tests of a row, for a table of a page."""
    return " ".join(f"`{test.replace('|', chr(92) + '|')}`" for test in row.tests)
