#!/usr/bin/env python3
"""Writes docs/hosts.md from the result files of .ci/hosts.

    ops/hosts/page.py RESULTS PAGE
"""

import pathlib
import sys

ROWS = {
    "A": "Debian 13",
    "B": "Ubuntu 24.04",
    "C6.1": "Debian 12, its own kernel",
    "C6.12": "Debian 12, kernel of backports",
    "E": "Containers on Debian 13",
    "F": "OCI configurations of Kubernetes pods, on Debian 13",
    "G": "Debian 13 on arm64",
}
CHECKS = {
    "doctor": "doctor",
    "service": "service",
    "exec": "exec",
    "memory": "memory kill",
    "fork-bomb": "fork bomb",
    "deadline": "deadline",
    "restore": "segfault, restore",
    "fork": "fork",
    "stop": "stop",
    "leftovers": "leftovers",
}
WHO = {
    "root": "root, by hand",
    "unit": "root, systemd unit",
    "user": "user, in a scope",
    "login": "user, after a login",
}

# Attack cases that cannot be run in these machines, or end otherwise there, and why that is no hole.
NO_INDEX = "not run: it needs packages of an index, which these machines can't reach"
NO_TRUNCATION = (
    "Landlock 2 has no right for truncation, so the system call filter refuses `truncate`, with another error and also in "
    "the workspace; nothing is truncated"
)
NO_SCOPE = (
    "Landlock before 6 does not restrict signals, so a session may send one to its own process 1; the kernel drops what "
    "process 1 doesn't handle, and it lives on. No other process is reached"
)
EARLY = "too slow in emulation: run before the case took that into account, and not again; it held on C6.1"
REASONS = {
    **dict.fromkeys(
        (
            "a_resources::heavy_a13_zombies_and_orphans",
            "a_resources::heavy_a2b_threads_that_fork",
            "b_time::heavy_b12_interrupts_at_the_end",
            "b_time::heavy_b6_forks_while_it_is_killed",
            "e_output::heavy_e1_print_without_end",
            "f_races::heavy_f3_a_directory_and_a_link_change_places",
            "h_processes::heavy_h6_orphans",
            "j_template::heavy_j10_many_sessions",
            "l_input::l14a_a_cell_asks_for_ever",
        ),
        EARLY,
    ),
    "a_memory::heavy_a15a_compressed_bomb": (
        "too slow in emulation: stopped after 6 minutes, with other work on the machine; it held on C6.1"
    ),
    "a_puts::heavy_a22_memory_filled_from_both_sides": (
        "the memory limit ended the cell before the host's first file was written, so nothing came from both sides; "
        "it held in the three runs after that, and on C6.1"
    ),
    "a_memory::a15c_bomb_of_pixels": NO_INDEX,
    "h_processes::heavy_h8b_names_that_libraries_remember": NO_INDEX,
    "j_template::heavy_j1_random_numbers": NO_INDEX,
    "j_template::heavy_j6_threads_of_the_template": NO_INDEX,
    "j_template::heavy_j7_touching_shared_pages": NO_INDEX,
    "f_host::f16a_writing_to_the_base": NO_TRUNCATION,
    "f_host::f17_truncation_by_landlock": NO_TRUNCATION,
    "f_races::f11_truncated_while_it_is_read": NO_TRUNCATION,
    "h_processes::h2_signals_to_every_number": NO_SCOPE,
    "h_processes::h2a_signals_by_other_ways": NO_SCOPE,
}

HEAD = """\
# Supported hosts

The hosts on which Belljar was run, and the result of each check. `.ci/hosts --page` generates this page from the result
files of `.ci/hosts`; a host without a result file is "not run".

Each host is a virtual machine made of the distribution's own packages, with the distribution's kernel. It installs the
Debian package and runs the smoke checks. QEMU emulates the CPU, so figures are many times those of real hardware: they show
that a check ended, not how fast Belljar is. [performance.md](performance.md) has those figures.
"""

MEANING = """\
## Checks

| check | held means |
|---|---|
| doctor | `belljar doctor` exits with 0: it started a real session |
| service | the shipped unit answers `/healthz`, without a restart |
| exec | `print(6 * 7)` prints 42 in a new session |
| memory kill | a session with 200 MiB that fills `/dev/shm` is ended, and the outcome says memory |
| fork bomb | processes that fork without end are refused, and the session answers |
| deadline | an endless loop is interrupted after 2 s |
| segfault, restore | after a segmentation fault the variables are back |
| fork | a fork changes a variable; the original keeps its own |
| stop | `systemctl stop` ends the service in order |
| leftovers | no process, cgroup, mount or file is left |

## Run it again

```console
# BELLJAR=target/release/belljar .ci/hosts          # every row
# BELLJAR=target/release/belljar .ci/hosts A C6.1   # these rows
# .ci/hosts --page                                  # this page
```

It needs root, QEMU and mmdebstrap; the head of [`.ci/hosts`](../.ci/hosts) lists the packages and the variables. Images and
kernels are kept in `~/.cache/belljar-hosts`, result files in `ops/hosts/results`. `ACCELERATOR=kvm` uses KVM instead of emulation.
"""


def read(path):
    """The facts of a row, and its checks by who ran them."""
    facts, checks = {}, {}
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if line.startswith("#"):
            facts[fields[0][1:]] = fields[1]
        elif len(fields) == 5:
            who, check, result, seconds, detail = fields
            checks.setdefault(who, {})[check] = (result, seconds, detail.strip())
    return facts, checks


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def cell(result):
    if result is None:
        return ""
    word, seconds, _ = result
    return f"{float(seconds):.0f} s" if word == "held" else f"**{word}**" if word == "failed" else word


def supported(checks):
    """What the checks of one way to run it add up to."""
    words = [word for word, _, _ in checks.values()]
    if "failed" in words:
        return "no: " + ", ".join(CHECKS.get(check, check) for check, result in checks.items() if result[0] == "failed")
    if words and "leftovers" not in checks and "not possible" not in words:
        return "not finished"
    return "yes" if "held" in words and "not possible" not in words else "not possible"


def attacks(results):
    """The attack suite on each row that ran it, and what did not hold."""
    rows, failures = [], []
    for row, name in ROWS.items():
        path = results / f"{row}.attacks"
        if not path.exists():
            continue
        cases = [line.split("\t") for line in path.read_text().splitlines()]
        failed = [case for case in cases if case[1] != "held"]
        rows.append([row, name, str(len(cases)), str(len(cases) - len(failed))])
        for case, _, _, *detail in failed:
            failures.append(f"- {row}, `{case}`: {REASONS.get(case, ''.join(detail))}\n")
    if not rows:
        return ""
    text = "\n## Attack suite\n\nThe cases of [security-tests.md](security-tests.md) that attack a session, run as root.\n\n"
    text += table(["row", "host", "cases", "held"], rows)
    return text + ("\n" + "".join(failures) if failures else "")


def main(results, page):
    versions, summary, figures, details = [], [], [], []
    for row, name in ROWS.items():
        path = results / f"{row}.tsv"
        facts, by_who = read(path) if path.exists() else ({}, {})
        if not by_who:
            summary.append([row, name, "", "not run"])
            figures.append([row, "not run"] + [""] * len(CHECKS))
            continue
        facts["cgroup"] = {"cgroup2fs": "2"}.get(facts.get("cgroup"), "1")
        versions.append([row, facts["distribution"]] + [facts.get(key, "") for key in
                        ("kernel", "landlock", "cgroup", "systemd", "glibc", "python", "package", "date")])
        for who, checks in by_who.items():
            label = WHO.get(who, who)
            summary.append([row, name, label, supported(checks)])
            figures.append([row, label] + [cell(checks.get(check)) for check in CHECKS])
            for check, (word, _, detail) in checks.items():
                if word != "held":
                    details.append(f"- {row}, {label}, {CHECKS.get(check, check)}: {word}. `{detail.replace('`', chr(39))}`\n")
    text = HEAD + "\n## Support\n\n\"yes\" means that every check held.\n\n"
    text += table(["row", "host", "run as", "supported"], summary)
    text += "\n## Versions\n\n"
    text += table(["row", "distribution", "kernel", "Landlock", "cgroup", "systemd", "glibc", "Python", "package (SHA-256)", "run on"], versions)
    text += "\n## Results\n\nSeconds of each check that held. Empty: the check does not apply.\n\n"
    text += table(["row", "run as"] + list(CHECKS.values()), figures)
    if details:
        text += "\n### Failures\n\n" + "".join(details)
    page.write_text(text + attacks(results) + "\n" + MEANING)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
