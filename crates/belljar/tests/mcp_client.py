"""`belljar mcp`, and `/mcp` of `belljar serve`, used by the official client library. Run by `.ci/mcp-client`: PROGRAM is the first
argument. Every scenario runs with a client of each protocol revision."""

import base64
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from typing import Literal

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp_types import CallToolResult, ElicitResult, Request, Result

PROGRAM = sys.argv[1]
REVISIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}
CSV = "city,year,sales\n" + "".join(
    f"{city},{year},{10 * at + year - 2020}\n"
    for at, city in enumerate(["Aachen", "Bergen", "Cork"])
    for year in range(2020, 2026)
)


def connect(mode, *arguments, **options):
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "BELLJAR_DATA_DIR") if key in os.environ}
    server = StdioServerParameters(command=PROGRAM, args=["mcp", *arguments], env=environment)
    return Client(server, mode=mode, read_timeout_seconds=120, **options)


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def call(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool}: {text_of(result)}"
    return result


async def refused(client, tool, why, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error and why in text_of(result), f"{tool}: {text_of(result)}"


async def analysis(client):
    """A whole data analysis: upload, cells with state, an image, a fork, a checkpoint, a restore."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {
        "run_python", "run_command", "background_command", "create_session", "close_session", "list_files", "read_file",
        "write_file", "fork_session", "checkpoint", "restore",
    }, tools.keys()
    assert tools["run_python"].input_schema["required"] == ["code"]
    assert "status" in tools["run_python"].output_schema["properties"]

    await call(client, "write_file", path="/workspace/data/sales.csv", content=CSV)
    listed = await call(client, "list_files")
    assert {"path": "data/sales.csv", "kind": "file", "size": len(CSV)} in listed.structured_content["files"]

    counted = await call(client, "run_command", command="wc -l < data/sales.csv", timeout_seconds=10)
    assert counted.structured_content["exit_code"] == 0, counted
    assert counted.structured_content["stdout"]["text"].strip() == str(CSV.count("\n")), counted

    await call(client, "run_python", code="import pandas as pd\nsales = pd.read_csv('data/sales.csv')")
    second = await call(client, "run_python", code="totals = sales.groupby('city')['sales'].sum()\ntotals.to_frame()")
    [table] = second.structured_content["tables"]
    assert table["index"] == ["Aachen", "Bergen", "Cork"], table
    assert table["rows"] == [[15], [75], [135]], table
    assert "Bergen" in text_of(second) and second.structured_content["cell"] == 2
    third = await call(
        client, "run_python",
        code="import matplotlib.pyplot as plt\ntotals.plot.bar()\nplt.savefig('totals.png')\nplt.show()",
    )
    [image] = [block for block in third.content if block.type == "image"]
    assert image.mime_type == "image/png" and base64.b64decode(image.data).startswith(b"\x89PNG")
    assert third.structured_content["images"] == 1
    assert [file["path"] for file in third.structured_content["files"]] == ["totals.png"]
    saved = await call(client, "read_file", path="totals.png")
    assert saved.content[0].type == "image", saved.content[0].type
    assert (await call(client, "read_file", path="data/sales.csv")).content[0].text == CSV

    await call(client, "checkpoint", name="totals")
    forked = await call(client, "fork_session", count=2)
    one, two = forked.structured_content["session_ids"]
    await call(client, "run_python", session_id=one, code="totals *= 2")
    seen = await call(client, "run_python", session_id=one, code="print(totals['Cork'])")
    assert seen.structured_content["stdout"]["text"] == "270\n" and seen.structured_content["session_id"] == one
    seen = await call(client, "run_python", session_id=two, code="print(totals['Cork'], open('data/sales.csv').readline())")
    assert seen.structured_content["stdout"]["text"].startswith("135 city"), seen.structured_content["stdout"]
    await call(client, "write_file", session_id=two, path="note.txt", content="for this one")
    assert (await call(client, "read_file", session_id=two, path="note.txt")).content[0].text == "for this one"

    await call(client, "run_python", code="del totals")
    await call(client, "restore", name="totals")
    seen = await call(client, "run_python", code="print(totals['Cork'])")
    assert seen.structured_content["stdout"]["text"] == "135\n"
    await refused(client, "restore", "those it has: `totals`", name="nothing")


async def wrong(client):
    """Wrong arguments and failing cells are told to the model; unknown tools to the program."""
    await refused(client, "run_python", "missing field `code`")
    await refused(client, "run_python", "invalid type", code=7)
    await refused(client, "run_python", "unknown field `timeout`", code="1", timeout=3)
    await refused(client, "run_python", "There is no session with this id", code="1", session_id="s-0")
    await refused(client, "fork_session", "count must be from 1 to 8", count=9)
    await refused(client, "write_file", "not base64", path="a", content="%", encoding="base64")
    await refused(client, "read_file", "", path="../../etc/passwd")
    await refused(client, "read_file", "", path="nothing.txt")
    try:
        await client.call_tool("drop_tables", {})
        raise AssertionError("an unknown tool was called")
    except MCPError as error:
        assert error.code == -32602, error

    await call(client, "run_python", code="kept = 1")
    failed = await client.call_tool("run_python", {"code": "print('before')\nkept / 0"})
    report = failed.structured_content
    assert failed.is_error and report["status"] == "failure" and report["state"] == {"fate": "kept"}
    assert report["exception"]["type"] == "ZeroDivisionError" and report["exception"]["line"] == 2
    assert "kept / 0" in text_of(failed) and "ZeroDivisionError" in text_of(failed)
    crashed = await client.call_tool("run_python", {"code": "import os; os._exit(3)"})
    assert crashed.is_error and crashed.structured_content["status"] == "crashed"
    # The copy that is made after each cell is the session now.
    seen = await call(client, "run_python", code="print(kept)")
    assert seen.structured_content["stdout"]["text"] == "1\n"


async def cancelled(client):
    """A call that is given up interrupts its cell; the variables are kept."""
    await call(client, "run_python", code="import time\ndone = []")
    progress = []

    async def heard(seconds, total, message):
        progress.append((seconds, message))

    start = time.monotonic()
    with anyio.move_on_after(3) as scope:
        code = "done.append(1)\nprint('begun', flush=True)\ntime.sleep(25)\ndone.append(2)"
        await client.call_tool("run_python", {"code": code}, progress_callback=heard)
    assert scope.cancelled_caught
    seen = await call(client, "run_python", code="print(done)")
    assert seen.structured_content["stdout"]["text"] == "[1]\n"
    assert time.monotonic() - start < 15, "the cell was not interrupted"
    assert progress and progress[-1][1] == "begun", progress
    assert [seconds for seconds, _ in progress] == sorted({seconds for seconds, _ in progress})

    # One that waits for its turn is given up without touching the one that runs.
    async with anyio.create_task_group() as group:
        results = []

        async def first():
            results.append(await client.call_tool("run_python", {"code": "time.sleep(3); done.append(3)"}))

        group.start_soon(first)
        await anyio.sleep(1)
        with anyio.move_on_after(0.5):
            await client.call_tool("run_python", {"code": "done.append(4)"})
    assert not results[0].is_error, text_of(results[0])
    seen = await call(client, "run_python", code="print(done)")
    assert seen.structured_content["stdout"]["text"] == "[1, 3]\n"


async def at_once(client):
    """Two sessions run at the same time and see nothing of each other; sessions are limited."""
    ids = [(await call(client, "create_session")).structured_content["session_id"] for _ in range(2)]
    code = "import time\nx = {0}\nbegin = time.monotonic()\ntime.sleep(3)\nprint(x, begin, time.monotonic())"
    outputs = {}

    async def run(name, number):
        result = await call(client, "run_python", session_id=name, code=code.format(number))
        outputs[name] = [float(word) for word in result.structured_content["stdout"]["text"].split()]

    async with anyio.create_task_group() as group:
        for number, name in enumerate(ids):
            group.start_soon(run, name, number)
    (x0, begin0, end0), (x1, begin1, end1) = (outputs[name] for name in ids)
    assert (x0, x1) == (0, 1), outputs
    assert max(begin0, begin1) < min(end0, end1), f"one waited for the other: {outputs}"
    await call(client, "run_python", code="1")
    await refused(client, "create_session", "At most 3 sessions")
    await refused(client, "fork_session", "At most 3 sessions")
    await call(client, "close_session", session_id=ids[0])
    await refused(client, "run_python", "There is no session", code="x", session_id=ids[0])
    await call(client, "create_session")


async def big(client):
    """Big outputs come within bounds, with both their ends."""
    result = await call(client, "run_python", code="print('first'); print('x' * 50_000_000); print('last')")
    assert len(text_of(result)) < 200_000
    assert text_of(result).count("first") == 1 and "last" in text_of(result)
    assert result.structured_content["stdout"]["bytes"] > 50_000_000
    result = await call(
        client, "run_python",
        code="import pandas as pd\npd.DataFrame({'c%d' % i: ['y' * 100] * 200 for i in range(10)})",
    )
    assert len(result.model_dump_json()) < 1_000_000
    assert any("tables" in line for line in result.structured_content["notes"])
    await call(client, "run_python", code="open('big.txt', 'w').write('z' * 1_000_000); open('huge.bin', 'wb').write(b'\\0' * 9_000_000)")
    await refused(client, "read_file", "run_python", path="big.txt")
    await refused(client, "read_file", "can be transferred", path="huge.bin")
    blob = base64.b64encode(bytes(range(256)) * 4096).decode()
    await call(client, "write_file", path="bytes.bin", content=blob, encoding="base64")
    assert (await call(client, "read_file", path="bytes.bin")).content[0].resource.blob == blob


class TaskHandle(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class GetTask(Request):
    method: Literal["tasks/get"] = "tasks/get"
    params: dict


class TaskState(Result):
    status: str
    result: dict | None = None


class Tasks(ClientExtension):
    """The tasks extension, of which the library leaves the part of the client to its user."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.handles = []

    def claims(self):
        return [ResultClaim(result_type="task", model=TaskHandle, resolve=self.resolve)]

    async def resolve(self, handle, context):
        self.handles.append(handle)
        while True:
            state = await context.session.send_request(
                GetTask(params={"taskId": handle.task_id}), TaskState
            )
            if state.status != "working":
                return CallToolResult.model_validate(state.result)
            await anyio.sleep(0.3)


async def as_task():
    """A long cell is a task, for a client that knows them."""
    tasks = Tasks()
    async with connect("2026-07-28", "--env", "bare", extensions=[tasks]) as client:
        short = await call(client, "run_python", code="print('short')")
        assert not tasks.handles and "short" in text_of(short)
        long = await call(client, "run_python", code="import time; time.sleep(7); print('long')")
        assert len(tasks.handles) == 1 and "long" in text_of(long), tasks.handles


async def approved(mode):
    """A person decides by way of the client, whichever way the revision has for it."""
    shown, answers = [], []

    async def person(context, params):
        shown.append(params)
        action, content = answers.pop(0)
        return ElicitResult(action=action, content=content)

    code = "import os\nprint('it gave', os.system('exit 6') >> 8)  # \u202e"
    async with connect(mode, "--env", "bare", "--approve", "risky", elicitation_callback=person) as client:
        await call(client, "run_python", code="x = 1")
        assert not shown
        answers += [("decline", None), ("accept", {"decision": "reject", "feedback": "Not so."})]
        await refused(client, "run_python", "a person did not approve it", code=code)
        await refused(client, "run_python", "Not so.", code=code)
        answers += [("accept", {"decision": "accept"}), ("accept", {"decision": "accept_rest"})]
        for _ in range(3):
            seen = await call(client, "run_python", code=code)
            assert seen.structured_content["stdout"]["text"] == "it gave 6\n"
        assert len(shown) == 4 and not answers, shown
        assert "os.system('exit 6')" in shown[0].message and "\\u{202e}" in shown[0].message, shown[0].message
        assert "\u202e" not in shown[0].message
        assert shown[0].requested_schema["required"] == ["decision"], shown[0].requested_schema
    async with connect(mode, "--env", "bare", "--approve", "always") as client:
        await refused(client, "run_python", "this client can't ask one", code="x = 1")


@contextlib.contextmanager
def service():
    """A service, as where it is and what makes a key for a new tenant of it."""
    with tempfile.TemporaryDirectory() as data:
        command = [PROGRAM, "serve", "--data", data, "--listen", "127.0.0.1:0", "--drain", "1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            url = next(line.split("listening on ")[1] for line in process.stderr if "listening on" in line)

            def key(tenant):
                make = [PROGRAM, "keys", "create", "--data", data, "--tenant", tenant, "--scope", "sessions"]
                return subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()

            yield url.strip().rstrip("]"), key
        finally:
            process.terminate()
            process.wait(60)


async def over_http():
    """The same over HTTP, each scenario as a tenant of its own."""
    with service() as (url, key):
        for mode, revision in REVISIONS.items():
            for scenario in [analysis, wrong, cancelled]:
                if mode == "auto" and scenario is not wrong:
                    continue
                start = time.monotonic()
                headers = {"Authorization": "Bearer " + key(f"{mode}-{scenario.__name__}")}
                async with httpx2.AsyncClient(headers=headers, timeout=120) as http:
                    transport = streamable_http_client(url + "/mcp", http_client=http)
                    async with Client(transport, mode=mode, read_timeout_seconds=120) as client:
                        assert client.protocol_version == revision, client.protocol_version
                        await scenario(client)
                print(f"ok  {revision} ({mode}) http {scenario.__name__} {time.monotonic() - start:.1f} s", flush=True)


async def main():
    for mode, revision in REVISIONS.items():
        for scenario, arguments in [
            (analysis, []),
            (wrong, ["--env", "bare"]),
            (cancelled, ["--env", "bare"]),
            (at_once, ["--env", "bare", "--sessions", "3"]),
            (big, []),
        ]:
            if mode == "auto" and scenario is not wrong:
                continue  # what is agreed on is all that differs
            start = time.monotonic()
            async with connect(mode, *arguments) as client:
                assert client.protocol_version == revision, client.protocol_version
                await scenario(client)
            print(f"ok  {revision} ({mode}) {scenario.__name__} {time.monotonic() - start:.1f} s", flush=True)
    for mode in ["legacy", "2026-07-28"]:
        start = time.monotonic()
        await approved(mode)
        print(f"ok  {REVISIONS[mode]} ({mode}) approved {time.monotonic() - start:.1f} s", flush=True)
    start = time.monotonic()
    await as_task()
    print(f"ok  2026-07-28 as_task {time.monotonic() - start:.1f} s", flush=True)
    await over_http()


anyio.run(main)
