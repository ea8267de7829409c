"""Runs: from the task to the answer, watched, steered, decided."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from belljar import AsyncBelljar, Belljar, BelljarError, NotFound, models
from belljar._core import RunReader, destination
from conftest import Service, Wire

SALES = ("sales.csv", b"4000\n217\n")
SUM = "What are the sales in all?"
PRODUCT = "What is six times seven?"


def test_a_run_from_its_file_to_its_files(client: Belljar, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_bytes(SALES[1])
    run = client.run(SUM, files=[tmp_path / "sales.csv"], budget={"steps": 5})
    assert run.view.answer is None
    events = list(run)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert (events[0].kind, events[-1].kind) == ("started", "ended")
    assert (run.answer, run.view.state) == ("The sales are 4217 in all.", "answered")
    assert run.view.evidence[0].seen is not None and run.view.budget.steps == 5
    assert [event.number for event in run.events(after=3)] == list(range(4, len(events) + 1))
    assert list(run.events(after=len(events))) == []

    saved = run.save(tmp_path / "made")
    assert saved == [tmp_path / "made" / "total.txt"] and saved[0].read_text() == "4217"
    run.export(tmp_path / "run.py")
    assert "total = sum(" in (tmp_path / "run.py").read_text()

    comparison = run.reproduce()
    verdicts = [value.verdict for value in comparison.values] + [file.verdict for file in comparison.files]
    assert verdicts == ["identical", "identical"]
    whole, part = run.share(), run.share(value="4217")
    assert {(share.id, share.value) for share in run.shares()} == {(whole.id, None), (part.id, 1)}
    address, token = part.link.split("/#/shared/")
    asked = httpx.get(f"{address}/v1/shared", headers={"Authorization": f"Bearer {token}"})
    assert (asked.json()["value"], asked.json()["answer"]) == ("4217", run.answer)
    run.revoke_share(part.id)
    assert [share.id for share in run.shares()] == [whole.id]
    assert httpx.get(f"{address}/v1/shared", headers={"Authorization": f"Bearer {token}"}).status_code == 404
    with pytest.raises(ValueError, match="has no value '9'; it has 4217"):
        run.share(value="9")

    found = client.attach_run(run.id)
    assert found.result().answer == run.answer
    assert run.id in [brief.id for brief in client.runs()]
    half = run.follow_up("And half of it?")
    assert half.result().answer == "Half of it is 2108.5."
    assert half.view.parent is not None and half.view.parent.id == run.id
    other = run.branch(1)
    assert other.id != run.id and other.result().state == "answered"

    with pytest.raises(BelljarError) as refused:
        run.cancel()
    assert refused.value.code == "run_ended"
    with pytest.raises(NotFound):
        client.attach_run("nothing")


def test_a_person_decides(client: Belljar) -> None:
    run = client.run(PRODUCT, approvals="always")
    asked = []
    for event in run:
        if event.kind == "approval_asked":
            asked.append((run.waits_for[0].subject.code, str(run.waits_for[0].shown)))
            run.approve()
            assert run.waits_for == []
    assert (asked, run.answer) == ([("print(6 * 7)", "   1 │ print(6 * 7)")], "It is 42.")
    with pytest.raises(ValueError):
        run.approve()

    edited = client.run(PRODUCT, approvals="always")
    next(event for event in edited if event.kind == "approval_asked")
    edited.edit("print(42)")
    assert edited.result().answer == "It is 42."

    refused = client.run(PRODUCT, approvals="always", budget={"steps": 2})
    next(event for event in refused if event.kind == "approval_asked")
    refused.raise_budget({"steps": 4})
    refused.set_policy("never")
    assert (refused.view.budget.steps, refused.view.approvals, refused.view.state) == (4, "never", "waits")
    refused.reject("Not this way.")
    decided = next(event for event in refused if event.kind == "approval_decided")
    assert isinstance(decided.data, models.ApprovalDecidedRunEvent)
    assert (decided.data.decision.kind, decided.data.decision.text) == ("feedback", "Not this way.")
    refused.result()


def test_a_result_is_not_waited_for_forever(client: Belljar) -> None:
    run = client.run(PRODUCT, approvals="always")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="has not ended in time"):
        run.result(timeout=1.0)
    assert 0.9 < time.monotonic() - began < 6
    asked: list[models.Approval] = []

    def decide(approval: models.Approval) -> bool:
        asked.append(approval)
        return True

    # One that waits already is asked about, too.
    assert run.result(timeout=60, on_approval=decide).answer == "It is 42."
    assert [approval.subject.code for approval in asked] == ["print(6 * 7)"]

    rejected = client.run(PRODUCT, approvals="always", budget={"steps": 2})
    rejected.result(timeout=60, on_approval=lambda _: "Another way.")
    data = [event.data for event in rejected]
    assert "Another way." in str([one for one in data if isinstance(one, models.ApprovalDecidedRunEvent)])

    left = client.run(PRODUCT, approvals="always")
    with pytest.raises(TimeoutError):
        left.result(timeout=1.0, on_approval=lambda _: None)
    with pytest.raises(TypeError, match="on_approval must return"):
        left.result(timeout=60, on_approval=lambda _: 1)
    left.cancel()


def test_events_have_types(client: Belljar) -> None:
    run = client.run(PRODUCT)
    run.result()
    for event in run:
        assert type(event.data) is models.RUN_EVENTS[event.kind]
        if event.data.kind == "replied":
            assert event.data.reply.text and event.data.took_ms >= 0
        elif isinstance(event.data, models.CallEndedRunEvent):
            assert event.data.result.cell is not None and event.data.result.cell.output.strip() == "42"
    # A newer service may tell more.
    reader = RunReader(client._access, "/v1/runs/x", 0, 0)
    (unknown,) = reader.feed(b'id: 1\nevent: told_later\ndata: {"kind": "told_later", "step": 3}\n\n')
    assert (unknown.kind, unknown.data.model_dump()["step"]) == ("told_later", 3)


def test_a_run_is_interrupted_and_cancelled(client: Belljar) -> None:
    run = client.run("Wait.")
    next(event for event in run if event.kind == "call_started")
    while not run.interrupt():
        pass
    ended = next(event for event in run if event.kind == "call_ended")
    assert "interrupt" in str(ended.data).lower()
    run.result()

    waiting = client.run(PRODUCT, approvals="always")
    next(event for event in waiting if event.kind == "approval_asked")
    waiting.resume()
    assert waiting.view.state == "waits"
    with pytest.raises(BelljarError) as refusal:
        waiting.delete()
    assert refusal.value.code == "run_not_ended"
    waiting.cancel()
    assert waiting.result().state == "ended"
    assert waiting.view.reason is not None and waiting.view.reason.kind == "stopped"
    waiting.delete()
    with pytest.raises(NotFound):
        waiting.refresh()
    assert [brief.id for brief in client.runs()].count(waiting.id) == 0


def test_a_stream_that_breaks_goes_on(service: Service, wire: Wire) -> None:
    with Belljar(service.url, service.key) as direct:
        run = direct.run(SUM, files=[SALES])
        run.result()
        # Each connection is cut after some of it: the first in the middle of an event.
        wire.plan = lambda number: 2500 if number % 2 == 0 else None
        with Belljar(wire.url, service.key) as client:
            kinds = [event.kind for event in client.attach_run(run.id)]
        assert kinds == [event.kind for event in run]
        assert wire.connections > 2, "none was cut"


def test_awaited(service: Service, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as client:
            run = await client.run(SUM, files=[SALES], approvals="always")
            async for event in run:
                if event.kind == "approval_asked":
                    await run.approve(rest_of_run=True)
            assert run.answer == "The sales are 4217 in all."
            assert (await run.save(tmp_path))[0].read_text() == "4217"
            await run.delete()
            assert run.id not in [brief.id async for brief in client.runs()]

            async def decide(approval: models.Approval) -> bool:
                return approval.step > 0

            another = await client.run(PRODUCT, approvals="always")
            with pytest.raises(TimeoutError):
                await another.result(timeout=0.5)
            assert (await another.result(on_approval=decide)).answer == "It is 42."

    asyncio.run(main())


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "", "a//b", "a\\..\\b", "C:a", "a\0"])
def test_files_stay_in_their_directory(path: str) -> None:
    with pytest.raises(BelljarError):
        destination(Path("made"), path)
    assert destination(Path("made"), "out/a.txt") == Path("made/out/a.txt")
