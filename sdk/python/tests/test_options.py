"""The column of the SDK in docs/options.md: each entry, against the real service."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from belljar import Belljar, BelljarError, NotFound, SessionEnded
from conftest import Service

PAGE = Path(__file__).resolve().parents[3] / "docs" / "options.md"

LIMITS = {"memory_bytes": 256 << 20, "milli_cpus": 200, "processes": 16, "workspace_bytes": 1 << 20}


def limits(client: Belljar) -> None:
    with client.session(limits=LIMITS) as session:  # type: ignore[arg-type]
        view = session.info()
        assert {name: getattr(view.limits, name) for name in LIMITS} == LIMITS
        full = session.run("with open('big', 'wb') as file: file.write(bytes(4 << 20))")
        assert full.exception is not None and full.exception.type == "OSError"
        threads = (
            "import threading\nfor _ in range(40): threading.Thread(target=threading.Event().wait, daemon=True).start()"
        )
        assert not session.run(threads).ok


def packages(client: Belljar) -> None:
    with client.session(packages=["humanize"]) as session:
        assert (session.info().packages.policy, session.info().packages.allow) == ("allow", ["humanize"])
    with client.session(packages=[]) as session:
        assert session.info().packages.policy == "deny"
        with pytest.raises(BelljarError) as refused:
            session.run("# requires: humanize\nimport humanize")
        assert refused.value.code == "package_not_allowed"
        missing = session.run("import yaml")
        assert missing.remedy is not None
        assert (missing.remedy.option, missing.remedy.set_by, missing.remedy.value) == ("packages", "service", "pyyaml")
    with pytest.raises(BelljarError) as refused:
        client.session(packages=["requests"])
    assert refused.value.code == "package_not_allowed"


def network(client: Belljar) -> None:
    reach = "import urllib.request\nurllib.request.urlopen('http://denied.example/', timeout=9)"
    with client.session(allow=["allowed.example"]) as session:
        denied = session.run(reach)
        assert denied.remedy is not None and denied.remedy.value == "denied.example"
    with pytest.raises(BelljarError) as refused:
        client.session(allow=["pypi.org"])
    assert refused.value.code == "network_not_allowed"


def namespaces(client: Belljar) -> None:
    with client.session() as session:
        session.run("x = 'main'")
        made = session.create_namespace("other", directory="/tmp")
        assert (made.name, made.directory) == ("other", "/tmp")
        assert session.run("import os; x = os.getcwd(); x", namespace="other").value == "'/tmp'"
        assert session.run("x").value == "'main'"
        assert [one.name for one in session.namespaces()] == ["main", "other"]
        assert [name.name for name in session.manifest()] == ["x"]
        assert [name.name for name in session.manifest(namespace="other")] == ["os", "x"]
        session.restart_namespace("other")
        assert session.manifest(namespace="other") == []
        session.delete_namespace("other")
        with pytest.raises(NotFound) as refused:
            session.run("1", namespace="other")
        assert refused.value.code == "namespace_not_found"


def cell_timeout(client: Belljar) -> None:
    with client.session() as session:
        assert session.run("while True: pass", wall_time=0.3).status == "timeout"


def environment(client: Belljar) -> None:
    with client.session(environment="default") as session:
        assert session.info().environment == "default"
    with pytest.raises(BelljarError, match="it offers default") as refused:
        client.session(environment="math")
    assert refused.value.code == "environment_not_offered"
    with pytest.raises(BelljarError) as refused:
        client.run("x", environment="math")
    assert refused.value.code == "environment_not_offered"


def isolation(client: Belljar) -> None:
    with client.session(isolation="full") as session:
        assert session.info().isolation == "full"
    with pytest.raises(BelljarError, match="it offers full") as refused:
        client.session(isolation="gvisor")
    assert refused.value.code == "isolation_not_offered"
    with pytest.raises(BelljarError) as refused:
        client.run("x", isolation="gvisor")
    assert refused.value.code == "isolation_not_offered"
    with pytest.raises(BelljarError) as refused:
        client.session_from_snapshot(b"", isolation="gvisor")
    assert refused.value.code == "isolation_not_offered"


def checkpoints(client: Belljar) -> None:
    with client.session(checkpoints="off") as session:
        session.run("x = 42")
        session.checkpoint("a")
        session.run("x = 1")
        session.restore("a")
        assert session.run("x").value == "42"


def files(client: Belljar) -> None:
    with client.session() as session:
        session.files.put("a.txt", b"42")
        assert session.run("print(open('a.txt').read())").stdout == "42\n"
        assert session.files.get("a.txt") == b"42"


def mounts(client: Belljar) -> None:
    with client.session(mounts=["system"]) as session:
        assert session.run("import os; print(os.listdir('/data'))").stdout == "['system']\n"
        assert session.info().mounts == ["system"]
    with pytest.raises(BelljarError, match="it offers system") as refused:
        client.session(mounts=["other"])
    assert refused.value.code == "mount_not_offered"


def label(client: Belljar) -> None:
    session = client.session(name="report", metadata={"team": "7"}, ttl=600)
    view = session.info()
    assert (view.name, view.metadata) == ("report", {"team": "7"})
    assert [one.id for one in client.sessions(name="report", metadata=("team", "7"))] == [session.id]
    assert not list(client.sessions(metadata=("team", "8")))
    view = session.extend(900, then="sleep")
    assert view.lease is not None and view.lease.then == "sleep" and view.expires_at is None
    view = session.extend(1200)
    assert view.lease is not None and view.lease.ends_at == view.expires_at
    view = session.update(name="", metadata={}, ttl=1)
    assert view.name is None and view.expires_at is not None
    time.sleep(max(0.0, view.expires_at + 1 - time.time()))
    with pytest.raises(SessionEnded):
        session.run("1")


def variables(client: Belljar) -> None:
    look = "import os; print(os.environ.get('PLACE'), os.environ.get('TOKEN'), len(os.environ.get('TOKEN', '')))"
    with client.session(variables={"PLACE": "north"}, secrets={"TOKEN": "tok-0123456789"}) as session:
        assert (session.info().variables, session.info().secrets) == (["PLACE"], ["TOKEN"])
        assert session.run(look).stdout == "north [secret TOKEN] 14\n"
        assert session.run(look, variables={"PLACE": "south"}).stdout.startswith("south ")
        (without,) = session.fork()
        assert without.run(look).stdout == "north None 0\n"
        (granted,) = session.fork(secrets=["TOKEN"])
        assert granted.run(look).stdout == "north [secret TOKEN] 14\n"
    with pytest.raises(BelljarError, match="LD_PRELOAD") as refused:
        client.session(variables={"LD_PRELOAD": "x"})
    assert refused.value.code == "variable_refused"


def ports(client: Belljar) -> None:
    with client.session() as session:
        session.files.put("index.html", b"<h1>Hello</h1>")
        session.commands.start("python -m http.server 8000")
        while (answer := session.fetch(8000)).status_code == 502:
            time.sleep(0.1)
        assert answer.text == "<h1>Hello</h1>"
        assert session.port(8000).host.startswith(f"8000-{session.id}.localhost")


CHECKS: dict[str, Callable[[Belljar], None]] = {
    "packages": packages,
    "network": network,
    "memory": limits,
    "CPUs": limits,
    "processes": limits,
    "disk": limits,
    "cell timeout": cell_timeout,
    "environment": environment,
    "isolation": isolation,
    "checkpoints": checkpoints,
    "files": files,
    "host directories": mounts,
    "variables": variables,
    "secrets": variables,
    "namespaces": namespaces,
    "ports": ports,
    "name, metadata, time to live": label,
}


def entries() -> dict[str, str]:
    """The entries of the SDK."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    column = rows[0].index("SDK")
    return {row[0].strip("*"): row[column] for row in rows[2:]}


def test_each_full_entry_has_a_check() -> None:
    assert {option for option, entry in entries().items() if not re.match(r"\*no: .+\*", entry)} == set(CHECKS)


@pytest.mark.parametrize("check", list(dict.fromkeys(CHECKS.values())))
def test_option(check: Callable[[Belljar], None], service: Service) -> None:
    with Belljar(service.url, service.key) as client:
        check(client)
