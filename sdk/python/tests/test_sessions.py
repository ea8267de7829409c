"""Sessions, against the real service."""

from __future__ import annotations

import os
import signal
import tarfile
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from belljar import (
    Belljar,
    BelljarError,
    CellFailed,
    Event,
    NotFound,
    Session,
    SessionBusy,
    SessionEnded,
    Unauthorized,
)
from conftest import Service

SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(60)"


def test_a_cell(session: Session) -> None:
    outcome = session.run("import sys\nprint('out'); print('err', file=sys.stderr)\n6 * 7")
    assert (outcome.status, outcome.stdout, outcome.stderr, outcome.value) == ("success", "out\n", "err\n", "42")
    assert outcome.ok and outcome.raise_for_status() is outcome
    assert outcome.display is outcome.displays[-1]
    assert outcome.cause.kind == "completed"
    assert str(outcome) == "out\nerr\n42"
    assert "'42'" in repr(outcome)
    assert session.run("_ = 1").value is None


def test_which_display_is_the_value(session: Session) -> None:
    shown: list[bool] = []

    def note(event: Event) -> None:
        if event.type == "display":
            shown.append(bool(event.value))

    code = "display('shown')\nhandle = display('changes', display_id=True)\n6 * 7"
    outcome = session.run(code, stream=note)
    assert shown == [False, False, True]
    assert [bool(display.value) for display in outcome.displays] == shown
    assert outcome.value == "42"
    # A figure is shown after the value, and is no value.
    figure = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n'the value'")
    assert [bool(display.value) for display in figure.displays] == [True, False]
    assert figure.value == "'the value'" and figure.display is not None and figure.display.png
    assert session.run("display('only')").value is None
    assert session.run("handle.update('new'); 1;").value is None


def test_an_exception_is_an_outcome(session: Session) -> None:
    outcome = session.run("def f():\n    raise KeyError('k')\nf()")
    assert not outcome.ok and outcome.exception is not None
    assert (outcome.exception.type, outcome.exception.line) == ("KeyError", 2)
    with pytest.raises(CellFailed, match=r"KeyError: 'k'") as failed:
        outcome.raise_for_status()
    assert failed.value.outcome is outcome
    # The session continues.
    assert session.run("1").value == "1"


def test_a_deadline(session: Session) -> None:
    outcome = session.run("while True: pass", wall_time=0.3)
    assert (outcome.status, outcome.cause.kind, outcome.cause.limit_ms) == ("timeout", "wall_time", 300)
    with pytest.raises(CellFailed):
        outcome.raise_for_status()
    with pytest.raises(BelljarError) as refused:
        session.run("1", wall_time=1e6)
    assert refused.value.code == "limit_too_high"


def test_events_as_they_come(session: Session) -> None:
    code = "import time\nfor n in range(3):\n    print(n, flush=True); time.sleep(0.2)\nn"
    told: list[tuple[str, float]] = []
    outcome = session.run(code, stream=lambda event: told.append((event.type, time.monotonic())))
    assert [kind for kind, _ in told] == ["started", "output", "output", "output", "display", "outcome"]
    assert told[-1][1] - told[1][1] > 0.3
    assert outcome.value == "2"
    with session.stream("print('a')\n1") as events:
        text = [event.text for event in events if event.type == "output"]
    assert text == ["a\n"]
    assert events.outcome is not None and events.outcome.stdout == "a\n"
    assert events.cell == events.outcome.cell


def test_interrupts(session: Session) -> None:
    assert session.interrupt() is False
    events = session.stream(SLEEP)
    assert [next(events).type, next(events).type] == ["started", "output"]
    assert session.interrupt() is True
    assert [event.type for event in events] == ["outcome"]
    assert events.outcome is not None and events.outcome.cause.kind == "interrupted"


def test_who_stops_waiting_interrupts_the_cell(session: Session) -> None:
    started = threading.Event()

    def press() -> None:
        started.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        session.run(SLEEP, stream=lambda event: started.set() if event.type == "output" else None)
    before = time.monotonic()
    assert session.run("'next'").value == "'next'"
    assert time.monotonic() - before < 20


def test_busy_sessions(client: Belljar, session: Session) -> None:
    events = session.stream(SLEEP)
    assert [next(events).type, next(events).type] == ["started", "output"]
    before = time.monotonic()
    with pytest.raises(SessionBusy):
        session.run("1", when_busy="refuse")
    assert time.monotonic() - before < 1, "it was tried again, though it was asked not to wait"
    session.interrupt()
    events.close()


def test_copies(client: Belljar, session: Session, tmp_path: Path) -> None:
    session.run("x = 1")
    session.checkpoint("one / ä")
    session.run("x = 2")
    assert "one / ä" in [copy.name for copy in session.checkpoints()]
    session.restore("one / ä")
    assert session.run("x").value == "1"
    session.forget("one / ä")
    with pytest.raises(NotFound) as missing:
        session.restore("one / ä")
    assert missing.value.code == "checkpoint_not_found"
    left, right = session.fork(2)
    left.run("x = 'left'")
    assert (left.run("x").value, right.run("x").value, session.run("x").value) == ("'left'", "1", "1")
    left.close()
    right.close()
    session.run("lock = __import__('_thread').allocate_lock()")
    session.files.put("file.txt", b"kept")
    assert session.snapshot(tmp_path / "s.snapshot") == 1
    assert os.listdir(tmp_path) == ["s.snapshot"]
    again = client.session_from_snapshot(tmp_path / "s.snapshot")
    assert again.run("x, open('file.txt').read()").value == "(1, 'kept')"
    with pytest.raises(BelljarError) as refused:
        client.session_from_snapshot(b"no snapshot")
    assert refused.value.code == "snapshot_refused"


def test_all_or_nothing(session: Session) -> None:
    session.run("x = 1")
    outcome = session.run("x = 2; 1 / 0", on_failure="restore")
    assert outcome.state.fate == "restored"
    assert session.run("x").value == "1"


def test_sleep_and_names(session: Session) -> None:
    session.run("x = [1, 2]")
    names = {name.name: name for name in session.manifest()}
    assert (names["x"].type, names["x"].length, names["x"].preview) == ("list", 2, "[1, 2]")
    use = session.info().use
    assert use is not None and (use.memory_bytes or 0) > 1_000_000
    assert session.hibernate().names == []
    hibernated = session.info()
    assert (hibernated.state, hibernated.use) == ("hibernated", None)
    session.wake()
    assert session.info().state == "awake"
    assert session.run("x").value == "[1, 2]"
    number = session.info().cells
    kept = session.cell(number)
    assert kept.state == "done" and kept.outcome is not None and kept.outcome.value == "[1, 2]"


def test_files(session: Session, tmp_path: Path) -> None:
    large = os.urandom(3 << 20)
    local = tmp_path / "data ä.bin"
    local.write_bytes(large)
    session.files.put(local)
    session.files.put("a/b/c.bin", str(local))
    session.files.put("empty", b"")
    assert session.files.get("data ä.bin") == large == session.files.get("a/b/c.bin")
    assert session.files.get("empty") == b""
    session.files.save("a/b/c.bin", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large
    assert [(one.path, one.kind) for one in session.files.list("a").files] == [
        ("a/b", "directory"),
        ("a/b/c.bin", "file"),
    ]
    session.archive(tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as archive:
        assert "a/b/c.bin" in archive.getnames()
    session.files.delete("empty")
    with pytest.raises(NotFound):
        session.files.get("empty")
    with pytest.raises(NotFound):
        session.files.save("empty", tmp_path / "never")
    assert not [name for name in os.listdir(tmp_path) if "never" in name]
    with pytest.raises(TypeError, match="the name comes first"):
        session.files.put(b"without a name")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the name comes first"):
        session.files.put(b"the old order", "name")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["../cells", "a/../../cells", "", "a//b", ".", "a/."])
def test_paths_stay_in_the_workspace(session: Session, path: str) -> None:
    """A client that tidies up addresses would ask for something else than a file."""
    for act in (session.files.get, session.files.delete, lambda path: session.files.put(path, b"x")):
        with pytest.raises(ValueError):
            act(path)


def test_other_paths_are_out_of_reach(session: Session) -> None:
    for act in (session.files.get, session.files.delete, lambda path: session.files.put(path, b"x")):
        with pytest.raises(BelljarError) as refused:
            act("/etc/passwd")
        assert refused.value.code == "path_denied"
        assert not isinstance(refused.value, Unauthorized)


def test_names_lead_nowhere_else(client: Belljar, session: Session) -> None:
    for name in ("..", ".", ""):
        with pytest.raises(ValueError):
            session.forget(name)
    with pytest.raises(NotFound):
        client.attach("../sessions")
    assert session.info().state == "awake"


def test_frames(session: Session) -> None:
    frame = pd.DataFrame({"city": ["Oslo", "Rome"], "amount": [3, 4]})
    for name in ("x.csv", "x.parquet"):
        session.files.put_frame(name, frame)
        pd.testing.assert_frame_equal(session.files.get_frame(name), frame)
    outcome = session.run("import pandas as pd\npd.read_csv('x.csv').assign(twice=lambda t: 2 * t.amount)")
    assert outcome.display is not None and outcome.display.table is not None
    table = outcome.display.table
    assert [column.name for column in table.columns] == ["city", "amount", "twice"]
    assert table.is_whole and table.rows == [["Oslo", 3, 6], ["Rome", 4, 8]]
    pd.testing.assert_frame_equal(table.to_frame(), frame.assign(twice=[6, 8]))
    large = session.run("pd.DataFrame({'n': range(5000), 'at': pd.Timestamp('2026-01-02')})").display
    assert large is not None and large.table is not None and not large.table.is_whole
    with pytest.raises(ValueError, match="of 5000 rows"):
        large.table.to_frame()
    part = large.table.to_frame(partial=True)
    assert part.n.tolist() == list(range(len(part))) and part["at"].dt.year.unique() == [2026]
    with pytest.raises(ValueError):
        session.files.put_frame("x.pickle", frame)
    with pytest.raises(ValueError):
        session.files.get_frame("x.pickle")


def test_who_ends_sessions(service: Service) -> None:
    with Belljar(service.url, service.key) as client:
        mine, kept, forgotten = client.session(), client.session(), client.session()
        kept.keep()
        with client.session() as inner:
            pass
        forgotten.close()
        forgotten.close()
        with pytest.raises(NotFound):
            forgotten.run("1")
    with Belljar(service.url, service.key) as client:
        alive = {view.id for view in client.sessions()}
        assert kept.id in alive
        assert not alive & {mine.id, inner.id, forgotten.id}
        again = client.attach(kept.id)
        assert again.run("1").value == "1"
    with Belljar(service.url, service.key) as client:
        client.attach(kept.id).close()
        assert not list(client.sessions())


def test_pages_of_sessions(client: Belljar, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [client.session().id for _ in range(3)]
    send = client._send

    def by_one(call, to=None):  # type: ignore[no-untyped-def]
        if "limit" in call.query:
            call.query["limit"] = 1
        return send(call, to)

    monkeypatch.setattr(client, "_send", by_one)
    assert [view.id for view in client.sessions()] == made


def test_a_session_that_is_gone(client: Belljar) -> None:
    session = client.session(checkpoints="off", limits={"memory_bytes": 256 << 20})
    outcome = session.run("import os\nos._exit(3)")
    assert (outcome.status, outcome.cause.code, outcome.state.fate) == ("crashed", 3, "lost")
    assert "its session has ended" in str(outcome)
    with pytest.raises(SessionEnded):
        session.run("1")
    session.close()


def test_large_outputs(session: Session) -> None:
    outcome = session.run("print('x' * 3_000_000)")
    assert outcome.ok and outcome.stdout_output.bytes == 3_000_001
    assert outcome.stdout_output.omitted_bytes > 0


def test_input(session: Session) -> None:
    asked: list[tuple[str, bool]] = []

    def answer(prompt: str, password: bool) -> str | None:
        asked.append((prompt, password))
        return {"Name: ": "Zoë", "Key: ": "s3cret"}.get(prompt)

    code = "import getpass\nname, key = input('Name: '), getpass.getpass('Key: ')\nprint(name, len(key))"
    assert session.run(code, on_input=answer).stdout == "Zoë 6\n"
    assert asked == [("Name: ", False), ("Key: ", True)]
    ended = session.run("input('more?')", on_input=answer)
    assert ended.exception is not None and ended.exception.type == "EOFError"
    nobody = session.run("input()")
    assert nobody.exception is not None and "does not answer input()" in nobody.exception.value
    # A client that fails leaves no cell behind that waits.
    with pytest.raises(ZeroDivisionError):
        session.run("input()", on_input=lambda prompt, password: str(1 // 0))
    assert session.run("1").value == "1"
    with session.stream("input('x')", answers_input=True) as events:
        question = next(event for event in events if event.type == "input_requested")
        session.answer_input(question, "y")
        assert [event.type for event in events][0] == "input_closed"
    with pytest.raises(BelljarError) as late:
        session.answer_input(question, "z")
    assert late.value.code == "no_question"
