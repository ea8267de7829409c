"""A rehearsal of an upgrade: the service is stopped and started again while clients use it.

`BELLJAR_LONG=1 pytest tests/test_upgrade.py -s` rehearses with more clients and more restarts, and prints figures.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from belljar import Belljar
from conftest import program

CLIENTS, RESTARTS = (32, 5) if os.environ.get("BELLJAR_LONG") else (6, 1)
NOTE = "the session hibernated after cell"


class Operator:
    """Starts and stops a service with one data directory on one address."""

    def __init__(self, directory: Path) -> None:
        self.data = str(directory / "service")
        self.log = directory / "log"
        self.address = "127.0.0.1:0"
        command = [program(), "keys", "create", "--data", self.data, "--scope", "sessions"]
        self.key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def start(self) -> None:
        command = [program(), "serve", "--env", "default", "--listen", self.address, "--data", self.data]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        found = None
        while found is None:
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
            found = re.search(r"listening on http://([0-9.:]+)", self.log.read_text())
        self.address = found[1]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(100) == 0, self.log.read_text()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    operator = Operator(tmp_path)
    operator.start()
    yield operator
    with contextlib.suppress(ProcessLookupError):
        operator.process.kill()


class User(threading.Thread):
    """Counts in a session, one cell after the other, and compares each value with its own count."""

    def __init__(self, url: str, key: str, number: int) -> None:
        super().__init__()
        self.client = Belljar(url, key)
        self.sent: collections.Counter[str] = collections.Counter()
        self.client._http.event_hooks = {"request": [self.count]}
        self.session = self.client.session()
        self.session.run("import time, pandas as pd\nframe = pd.DataFrame({'n': [0]})").raise_for_status()
        # Some are in the midst of a cell when the service stops, and have its grace period.
        self.pause = 0.3 * (number % 3)
        self.cells, self.woken = 0, 0
        self.over = threading.Event()
        self.error: BaseException | None = None

    def count(self, request: httpx.Request) -> None:
        self.sent[request.headers.get("idempotency-key", "")] += 1

    @property
    def retried(self) -> int:
        """How many requests were sent more than once."""
        return sum(1 for key, times in self.sent.items() if key and times > 1)

    def run(self) -> None:
        try:
            while not self.over.is_set():
                code = f"frame.n += 1\ntime.sleep({self.pause})\nint(frame.n[0])"
                outcome = self.session.run(code).raise_for_status()
                self.cells += 1
                assert outcome.value == str(self.cells)
                self.woken += any(note.startswith(NOTE) for note in outcome.notes)
            self.client.close()
        except BaseException as error:
            self.error = error


def until(users: list[User], cells: int) -> None:
    """Waits until each user has run so many cells more."""
    before = [user.cells for user in users]
    while any(user.cells < start + cells for user, start in zip(users, before)):
        for user in users:
            if user.error is not None:
                raise user.error
        time.sleep(0.05)


def test_an_upgrade_under_load(operator: Operator) -> None:
    """All clients continue with their variables, each cell runs once, and nobody sees an error."""
    url = f"http://{operator.address}"
    users = [User(url, operator.key, number) for number in range(CLIENTS)]
    for user in users:
        user.start()
    downtimes = []
    for restart in range(1, RESTARTS + 1):
        until(users, 3)
        begun = time.monotonic()
        operator.stop()
        operator.start()
        downtimes.append(time.monotonic() - begun)
        until(users, 3)
        assert [user.woken for user in users] == [restart] * CLIENTS
        # One request for each restart; none, if it fell into a pause of the client.
        assert all(user.retried <= restart for user in users), [user.retried for user in users]
    assert sum(user.retried for user in users) >= CLIENTS / 2
    for user in users:
        user.over.set()
    for user in users:
        user.join(60)
        assert user.error is None and not user.is_alive()
    retried = [user.retried for user in users]
    print(f"{CLIENTS} clients, {sum(user.cells for user in users)} cells, downtimes {downtimes}, retried {retried}")
    operator.stop()
