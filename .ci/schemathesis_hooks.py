"""What schemathesis has to know of the service beyond docs/openapi.json. Used by .ci/sdk."""

from __future__ import annotations

import json
import uuid
from typing import Any

import schemathesis
from schemathesis import Case, CheckContext, GenerationMode, HookContext, Response

# The service did not understand a request. Other refusals are about what it has and gives, which a schema can't say:
# which hosts and how much of something, which cursors were given out, how many events there are.
NOT_UNDERSTOOD = {"bad_body", "bad_request", "method_not_allowed", "route_not_found", "unsupported_media_type"}


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Gives each request a key of its own: to repeat one with another body is refused, and rightly."""
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 1 <= len(key) <= 255:
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    # The least that may be asked for is so little that everything after it would wait.
    body = case.body if isinstance(case.body, dict) else {}
    limits = body.get("limits") if isinstance(body.get("limits"), dict) else {}
    for fields, name, least in ((limits, "milli_cpus", 10), (limits, "wall_time_ms", 1), (body, "wall_time_ms", 1)):
        if type(fields.get(name)) is int and least <= fields[name] < 1000:
            fields[name] = 1000


@schemathesis.serializer("application/vnd.belljar.snapshot", "application/x-tar", "application/offset+octet-stream")
def binary(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def has_problem(response: Response, case: Case) -> bool:
    """The answer to HEAD has no body."""
    return response.status_code >= 400 and case.method.upper() != "HEAD"


@schemathesis.check
def valid_requests_are_understood(context: CheckContext, response: Response, case: Case) -> None:
    """In the place of `positive_data_acceptance`, which knows statuses alone."""
    meta = case.meta
    if meta is None or meta.generation.mode is not GenerationMode.POSITIVE or not has_problem(response, case):
        return
    problem = json.loads(response.content)
    # Said in words: some routes take exactly one of two fields, and an integer is written without a point.
    if any(words in problem["detail"] for words in ("either `", "invalid type: floating point")):
        return
    assert problem["code"] not in NOT_UNDERSTOOD, f"a valid request was not understood: {problem}"


@schemathesis.check
def problems_are_problems(context: CheckContext, response: Response, case: Case) -> None:
    """Every refusal has a code, the status that it says, and a time to come again where that may help."""
    if not has_problem(response, case):
        return
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code, problem
    assert problem["type"] == f"/errors/{problem['code']}", problem
    assert problem["retry"] == ("retry-after" in response.headers), problem
