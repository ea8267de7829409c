"""Connections that break, requests that are repeated, problems."""

from __future__ import annotations

import pickle
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from belljar import Belljar, BelljarError, NotFound, RateLimited, Unauthorized, Unavailable, Unreachable, _core, models
from belljar._core import Attempts
from conftest import Service, Wire, another_connection, program

COUNT = "import time\nfor n in range(200):\n    print(n, flush=True)\n    time.sleep(0.005)\nn"


@pytest.mark.parametrize("first", [0, 40, 700, 1000, 1500, 3000])
def test_a_stream_that_is_cut_goes_on(service: Service, wire: Wire, first: int) -> None:
    """Cut at the start, within the head, within an event, and again and again: no gap, no repeat, one cell."""
    with Belljar(wire.url, service.key) as client:
        session = client.session()
        begun = wire.connections
        # Less often than is tried again: the outcome is longer than a cut connection carries, which is no progress, and
        # one more try is left for what a busy machine does.
        wire.plan = lambda number: first if number == begun else 1300 if number < begun + 3 else None
        another_connection(client)
        kinds, text = [], ""
        with session.stream(COUNT) as events:
            for event in events:
                kinds.append(event.type)
                if event.type == "output":
                    text += event.text
        assert text == "".join(f"{n}\n" for n in range(200))
        assert (kinds[0], kinds[-1], kinds.count("started"), kinds.count("outcome")) == ("started", "outcome", 1, 1)
        assert events.outcome is not None and events.outcome.cell == 1 and events.outcome.value == "199"
        assert wire.connections > begun + 2
        assert session.info().cells == 1


def test_silence_is_noticed(service: Service, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is dead without an end: its signs of life are missed."""
    monkeypatch.setattr(_core, "SILENCE", 1.0)
    with Belljar(wire.url, service.key) as client:
        session = client.session()
        begun = wire.connections
        wire.silent = True
        wire.plan = lambda number: 1000 if number == begun else None
        another_connection(client)
        before = time.monotonic()
        assert session.run(COUNT).stdout.endswith("\n199\n")
        assert time.monotonic() - before < 20
        assert wire.connections > begun + 1


def test_a_repeated_request_has_one_effect(service: Service, wire: Wire) -> None:
    """The answer is lost after the request was carried out."""
    with Belljar(service.url, service.key) as direct:
        assert list(direct.sessions()) == []
        wire.plan = lambda number: 0 if number < 2 else None
        with Belljar(wire.url, service.key) as client:
            client._answered = True
            session = client.session()
            assert wire.connections == 3
            assert [view.id for view in direct.sessions()] == [session.id]
            another_connection(client)
            begun = wire.connections
            wire.plan = lambda number: 0 if number < begun + 2 else None
            session.run("runs = 1 + globals().get('runs', 0)")
            assert wire.connections == begun + 3
            assert direct.attach(session.id).run("runs").value == "1"


def test_an_upload_in_parts_goes_on(service: Service, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are lost after parts have arrived: no part is missing, and none is there twice."""
    monkeypatch.setattr(_core, "PART", 1 << 16)
    contents = b"".join(n.to_bytes(4, "big") for n in range(80_000))
    with Belljar(wire.url, service.key) as client:
        session = client.session()
        another_connection(client)
        begun = wire.connections
        wire.plan = lambda number: 600 * (number - begun) if number < begun + 4 else None
        session.files.put("data/large.bin", contents)
        assert wire.connections == begun + 5
        assert session.files.get("data/large.bin") == contents


def test_events_that_are_gone_leave_the_outcome(service: Service, wire: Wire) -> None:
    """What was sent while the connection was lost is more than is kept."""
    code = """
import time
class Big:
    def __repr__(self): return "x" * 900_000
for _ in range(9): display(Big())
time.sleep(1)
"end"
"""
    with Belljar(wire.url, service.key) as client:
        session = client.session()
        begun = wire.connections
        wire.plan = lambda number: 500 if number == begun else None
        another_connection(client)
        first = True

        def slow(_: object) -> None:
            nonlocal first
            if first:
                time.sleep(1.5)
            first = False

        outcome = session.run(code, stream=slow)
        assert outcome.ok and outcome.value == "'end'"


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    before = time.monotonic()
    with Belljar(url, "bj_key") as client, pytest.raises(Unreachable) as failed:
        client.session()
    assert time.monotonic() - before < 1
    for hint in (url, "belljar serve", "BELLJAR_URL"):
        assert hint in str(failed.value)


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BELLJAR_API_KEY", raising=False)
    with pytest.raises(Unauthorized, match="BELLJAR_API_KEY"):
        Belljar()
    with pytest.raises(ValueError, match="http"):
        Belljar("127.0.0.1:7878", "bj_key")


def test_variables(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLJAR_URL", service.url + "/")
    monkeypatch.setenv("BELLJAR_API_KEY", service.key)
    with Belljar() as client:
        assert client.session().run("1").value == "1"
        assert service.key not in repr(client) + repr(client._access)


def test_problems(service: Service) -> None:
    with Belljar(service.url, "bj_00000000_wrong") as client, pytest.raises(Unauthorized) as refused:
        client.session()
    assert (refused.value.code, refused.value.status, refused.value.retry) == ("unauthorized", 401, False)
    with Belljar(service.url, service.key) as client, pytest.raises(NotFound) as missing:
        client.attach("nobody")
    error = missing.value
    assert (error.code, error.remedy) == ("session_not_found", f"{service.url}/errors/session_not_found")
    assert error.request_id and error.title and error.detail
    for word in (error.title, error.detail, error.code, error.remedy):
        assert word is not None and word in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is NotFound and again.__dict__ == error.__dict__


def test_too_many(service: Service) -> None:
    """A tenant has 6 sessions here: who is refused comes again, and gets the place of one that has ended."""
    command = [program(), "keys", "create", "--data", str(service.data), "--tenant", "many", "--scope", "sessions"]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with Belljar(service.url, key, retries=0) as client:
        first, *_ = [client.session() for _ in range(6)]
        with pytest.raises(RateLimited) as refused:
            client.session()
        assert (refused.value.code, refused.value.retry) == ("too_many_sessions", True)
        assert refused.value.retry_after is not None
        client._retries = 4
        ending = threading.Timer(0.5, first.close)
        ending.start()
        assert client.session().run("1").value == "1"
        ending.join()


def answering(*answers: tuple[int, dict[str, str], bytes]) -> tuple[HTTPServer, list[str]]:
    """A server that gives these answers, the last one again and again; and the keys that it was sent."""
    left, keys = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            keys.append(self.headers["Idempotency-Key"])
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, keys


def asked(*answers: tuple[int, dict[str, str], bytes]) -> tuple[Callable[[], object], list[str]]:
    server, keys = answering(*answers)
    client = Belljar(f"http://127.0.0.1:{server.server_port}", "bj_key", retries=2)

    def ask() -> object:
        try:
            return client._send(_core.Call.change("POST", "/v1/anything")).status_code
        finally:
            client._http.close()
            server.shutdown()
            server.server_close()

    return ask, keys


def problem(code: str, status: int, retry: bool) -> bytes:
    text = f'{{"type": "/errors/{code}", "title": "t", "status": {status}, "code": "{code}", "detail": "d", "retry": '
    return f"{text}{str(retry).lower()}}}".encode()


def test_what_is_tried_again() -> None:
    full = (503, {"Retry-After": "1"}, problem("service_full", 503, True))
    ask, keys = asked(full, (200, {}, b""))
    before = time.monotonic()
    assert ask() == 200
    assert time.monotonic() - before >= 1
    assert len(keys) == 2 and len(set(keys)) == 1 and keys[0]

    ask, keys = asked((400, {}, problem("bad_request", 400, False)))
    with pytest.raises(BelljarError):
        ask()
    assert len(keys) == 1

    # A proxy that lost the service for a moment, and one for good.
    ask, keys = asked((502, {}, b"<html>Bad Gateway</html>"), (200, {}, b""))
    assert ask() == 200
    ask, keys = asked((504, {}, b"<html>"))
    with pytest.raises(Unavailable, match="not a response of a Belljar service") as lost:
        ask()
    assert len(keys) == 3 and lost.value.code == "no_service"

    # Too long to wait in silence.
    ask, keys = asked((429, {"Retry-After": "3600"}, problem("too_many_sessions", 429, True)))
    with pytest.raises(RateLimited) as told:
        ask()
    assert len(keys) == 1 and told.value.retry_after == 3600


def test_pauses_grow() -> None:
    attempts, error = Attempts(6), Unreachable("unreachable", "", retry=True)
    pauses = [attempts.wait(error) for _ in range(6)]
    for pause, least in zip(pauses, [0.25, 0.5, 1, 2, 4, 8]):
        assert least <= pause <= 1.5 * least
    with pytest.raises(Unreachable):
        attempts.wait(error)


def test_a_restart_is_waited_for() -> None:
    """From the moment that the service says so, whatever the connection does; for two minutes, not for ever."""
    draining = Unavailable("draining", "", retry=True, retry_after=5)
    unreachable = Unreachable("unreachable", "", retry=True)
    attempts, waited = Attempts(1), 0.0
    for error in [draining, unreachable, draining, unreachable, unreachable]:
        waited += attempts.wait(error)
    with pytest.raises(Unreachable):
        while True:
            waited += attempts.wait(unreachable)
    assert 120 < waited < 150
    # Who wants no retries gets none.
    with pytest.raises(Unavailable):
        Attempts(0).wait(draining)


def test_another_version() -> None:
    with pytest.raises(BelljarError, match="another version"):
        _core.parse(models.SessionView, b'{"id": 7}')
    # More than is known is no fault.
    cause = _core.parse(models.Cause, b'{"kind": "boredom", "level": 3}')
    assert str(cause.kind) == "boredom"


def test_a_closed_client_says_so(service: Service) -> None:
    with Belljar(service.url, service.key) as client:
        session = client.session()
    for act in (lambda: session.run("1"), client.session, lambda: session.files.put("a", b"1")):
        with pytest.raises(BelljarError, match="this client is closed") as refused:
            act()
        assert refused.value.code == "client_closed"
