"""A service for all tests, and a wire to it that can be cut."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import scripted
from belljar import Belljar, Session


@dataclass(frozen=True)
class Service:
    url: str
    key: str
    data: Path


def program() -> str:
    """The program under test; `.ci/sdk` says which."""
    return os.environ["BELLJAR_PROGRAM"]


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with scripted.model() as model, tempfile.TemporaryDirectory() as data, open(f"{data}/told", "w+") as told:
        command = [program(), "serve", "--env", "default", "--listen", "127.0.0.1:0", "--data", f"{data}/service"]
        bounds = ["--tenant-sessions", "6", "--drain", "1", "--model", "llamacpp/scripted"]
        bounds += ["--packages", "humanize", "--allow", "allowed.example"]
        bounds += ["--mount", "/usr:system", "--ports-domain", "localhost", "--e2b"]
        variables = {**os.environ, "BELLJAR_BASE_URL": model}
        with subprocess.Popen(
            [*command, *bounds], stdout=subprocess.PIPE, stderr=told, text=True, env=variables
        ) as process:
            assert process.stdout is not None
            key, url = process.stdout.readline().strip(), None
            while url is None and process.poll() is None:
                time.sleep(0.05)
                url = re.search(r"listening on (http://[^]]*)", Path(told.name).read_text())
            assert url is not None, Path(told.name).read_text()
            yield Service(url[1], key, Path(data) / "service")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def another_connection(client: Belljar) -> None:
    """Has the next request go over a new one."""
    client._http.close()
    client._http = Belljar(client._access.url, client._access.key)._http


@pytest.fixture
def client(service: Service) -> Iterator[Belljar]:
    with Belljar(service.url, service.key) as client:
        yield client


@pytest.fixture
def session(client: Belljar) -> Iterator[Session]:
    with client.session() as session:
        yield session


class Wire:
    """Carries connections to the service. `plan` says, for each connection by its number from 0, how many bytes
    of answers it carries before it is cut (`None`: all of them), and whether it is cut by silence."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self.target = (host, int(port))
        self.plan: Callable[[int], int | None] = lambda _: None
        self.silent = False
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self._open += [near, far]
            budget = self.plan(self.connections)
            self.connections += 1
            threading.Thread(target=self._carry, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, budget), daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, budget: int | None) -> None:
        try:
            while chunk := source.recv(1 << 16):
                if budget is None:
                    to.sendall(chunk)
                    continue
                to.sendall(chunk[:budget])
                budget -= len(chunk)
                if budget <= 0:
                    break
        except OSError:
            pass
        if budget is not None and self.silent:
            return
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.close()
        for end in self._open:
            end.close()


@pytest.fixture
def wire(service: Service) -> Iterator[Wire]:
    wire = Wire(service.url)
    yield wire
    wire.close()
