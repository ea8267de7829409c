"""Ports of sessions."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from belljar import AsyncBelljar, BelljarError, Session
from conftest import Service

SERVER = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        self.send_response(418)
        self.end_headers()
        self.wfile.write(self.path.encode() + b' ' + body + b' ' + str(self.headers.get('x-own')).encode())
    def log_message(self, *args): pass
server = http.server.HTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""


def test_a_port_is_reached(session: Session, service: Service) -> None:
    assert session.fetch(8000).status_code == 502, "nothing listens yet"
    session.run(SERVER).raise_for_status()
    answer = session.fetch(8000, "/a?b=1", method="POST", content="text", headers={"X-Own": "1"})
    assert (answer.status_code, answer.text) == (418, "/a?b=1 text 1")
    # No path leads elsewhere, with the token. Python's server makes one slash of two.
    assert session.fetch(8000, "//other.example/x", method="POST", content="").text == "/other.example/x  None"
    with pytest.raises(ValueError):
        session.fetch(8000, "http://other.example/")
    port = session.port(8000)
    host, _, service_port = port.host.rpartition(":")
    assert host == f"8000-{session.id}.localhost" and service.url.endswith(f":{service_port}")
    assert port.url == f"http://{port.host}/" and port.link.startswith(f"{port.url}?")
    assert time.time() < port.link_ends_at < port.token_ends_at
    # Somebody who has the token alone.
    headers = {"Host": port.host, "X-Belljar-Port-Token": port.token}
    assert httpx.post(service.url, headers=headers, content="x").text == "/ x None"
    headers["X-Belljar-Port-Token"] = "wrong"
    assert httpx.post(service.url, headers=headers, content="x").status_code == 401


def test_a_port_that_is_not_offered(session: Session) -> None:
    with pytest.raises(BelljarError) as refused:
        session.port(80)
    assert refused.value.code == "port_not_offered"


def test_awaited(service: Service) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as client, await client.session() as session:
            (await session.run(SERVER)).raise_for_status()
            answer = await session.fetch(8000, method="POST", content=b"text")
            assert answer.text == "/ text None"

    asyncio.run(main())
