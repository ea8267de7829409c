"""`belljar acp`, used by the client library of PyPI and by the client `acpx` of npm, with a scripted model. Run by
`.ci/acp`: client.py PROGRAM NODE ACPX."""

import asyncio
import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import acp
from acp import resource_link_block, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)

PROGRAM, NODE, ACPX = sys.argv[1:]
RISKY = "import os\nprint('it gave', os.system('exit 6') >> 8)"
FIGURE = """import pandas as pd, matplotlib.pyplot as plt
sales = pd.read_csv('data/sales.csv')
print('total', sales.sold.sum())
sales.plot.bar(x='month', y='sold')
plt.show()
sales.assign(sold=2 * sales.sold).to_csv('data/sales.csv', index=False)
sales.describe().to_csv('summary.csv')
"""
ENDLESS = "import itertools, time\nfor number in itertools.count():\n    print(number)\n    time.sleep(0.001)"


class Model(http.server.BaseHTTPRequestHandler):
    """A model that says what stands in `script`, one reply after the other."""

    protocol_version = "HTTP/1.1"
    script = []

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        reply = Model.script.pop(0) if Model.script else {"content": "There is nothing more to say."}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        parts = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas(reply)]
        parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        for part in parts:
            self.wfile.write(f"data: {json.dumps(part)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *arguments):
        pass


def deltas(reply):
    for key in ("reasoning_content", "content"):
        text = reply.get(key, "")
        yield from ({key: text[at : at + 9]} for at in range(0, len(text), 9))
    for index, (name, arguments) in enumerate(reply.get("calls", [])):
        function = {"name": name, "arguments": json.dumps(arguments)}
        yield {"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]}


def python(code, **more):
    return {"calls": [("python", {"code": code, "purpose": "work"})], **more}


def answer(text):
    return {"calls": [("answer", {"text": text})]}


def plan(*tasks):
    nodes = [{"task_name": name, "status": status} for name, status in tasks]
    return {"calls": [("recursive_plan_tree_todo", {"core_goal": "the total", "tree_nodes": nodes})]}


class Editor:
    """A client: it keeps what it hears, and answers as a person would."""

    def __init__(self):
        self.updates, self.asked, self.choices, self.unsaved, self.written = [], [], [], {}, {}
        self.heard = asyncio.Event()

    def on_connect(self, connection):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)
        self.heard.set()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append((tool_call, options))
        choice = self.choices.pop(0)
        if choice is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert choice in [option.option_id for option in options]
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=choice))

    async def read_text_file(self, session_id, path, **kwargs):
        if path not in self.unsaved:
            raise acp.RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.unsaved[path])

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.written[path] = content
        return WriteTextFileResponse()

    def forget(self):
        self.updates, self.asked, self.written = [], [], {}

    def of_kind(self, kind):
        return [update for update in self.updates if update.session_update == kind]

    def said(self, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of_kind(kind) if update.content.type == "text")

    async def hears(self, is_it):
        while not any(map(is_it, self.updates)):
            self.heard.clear()
            await asyncio.wait_for(self.heard.wait(), 60)


@contextlib.asynccontextmanager
async def connected(editor, directory, *arguments):
    command = ["acp", "--model", "llamacpp/scripted", "--base-url", URL, "--dialect", "native", *arguments]
    environment = {**os.environ, "BELLJAR_RUNS_DIR": str(directory / "runs")}
    # By default, the library reads lines of 64 KiB at most; a figure has more.
    options = {"limit": 64 << 20}
    async with acp.spawn_agent_process(
        editor, PROGRAM, *command, env=environment, transport_kwargs=options
    ) as (connection, process):
        capabilities = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
        about = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=capabilities,
            client_info=Implementation(name="python", version="0"),
        )
        assert about.protocol_version == 1 and about.agent_info.name == "belljar", about
        assert about.agent_capabilities.load_session and about.agent_capabilities.prompt_capabilities.embedded_context
        yield connection


def link(path):
    return resource_link_block(path.name, path.as_uri())


async def library(directory):
    project = directory / "project"
    (project / "data").mkdir(parents=True)
    sales = project / "data" / "sales.csv"
    sales.write_text("month,sold\n1,1\n")
    (directory / "secret").write_text("secret")
    (project / "out").symlink_to(directory / "secret")
    editor = Editor()
    async with connected(editor, directory) as connection:
        opened = await connection.new_session(cwd=str(project), mcp_servers=[])
        session = opened.session_id
        assert opened.modes.current_mode_id == "risky", opened
        assert [option.id for option in opened.config_options] == ["model", "approvals"], opened

        async def prompt(*blocks, script=(), choices=()):
            editor.forget()
            Model.script, editor.choices = list(script), list(choices)
            return (await connection.prompt(session_id=session, prompt=list(blocks))).stop_reason

        # A whole analysis: unsaved text in, thoughts, a plan, a figure, an answer, files, a change after permission.
        editor.unsaved[str(sales)] = "month,sold\n1,20\n2,22\n"
        reason = await prompt(
            text_block("What is the total of "), link(sales), text_block("?"),
            script=[
                plan(("read", "completed"), ("count", "processing")),
                python(FIGURE, reasoning_content="I read the file.", content="First the total."),
                answer("The total is 42."),
            ],
            choices=["accept"],
        )
        assert reason == "end_turn", reason
        assert "I read the file." in editor.said("agent_thought_chunk")
        said = editor.said()
        assert "First the total." in said and "The total is 42." in said and "42: computed in cell" in said, said
        [shown] = editor.of_kind("plan")
        assert [entry.status for entry in shown.entries] == ["completed", "in_progress"], shown
        assert editor.of_kind("usage_update")[-1].used == 1050
        calls = editor.of_kind("tool_call")
        assert calls[0].kind == "execute" and "read_csv" in calls[0].raw_input["code"], calls
        cell = [update for update in editor.of_kind("tool_call_update") if update.tool_call_id == calls[0].tool_call_id]
        assert cell[0].status == "in_progress" and cell[-1].status == "completed", cell
        images = [part.content for part in cell[-1].content if part.content.type == "image"]
        assert len(images) == 1 and images[0].mime_type == "image/png", images
        links = [update.content for update in editor.of_kind("agent_message_chunk") if update.content.type == "resource_link"]
        assert {link.name for link in links} == {"data/sales.csv", "summary.csv"}, links
        for made in links:
            assert pathlib.Path(made.uri.removeprefix("file://")).is_file(), made
        [(change, _)] = editor.asked
        assert change.content[0].type == "diff" and change.content[0].old_text.startswith("month,sold\n1,20"), change
        assert editor.written == {str(sales): "month,sold\n1,40\n2,44\n"}, editor.written

        # A follow-up has the variables. Approvals: granted, rejected, and left open.
        for choice, ran in [("accept", True), ("reject", False), (None, False)]:
            reason = await prompt(
                text_block("Continue."),
                script=[python(RISKY + "\nprint(len(sales))"), answer("Done."), answer("Done.")],
                choices=[choice],
            )
            assert reason == "end_turn", reason
            [(asked, options)] = editor.asked
            assert "os.system('exit 6')" in asked.content[0].content.text, asked
            assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"], options
            last = editor.of_kind("tool_call_update")[-1]
            assert last.status == ("completed" if ran else "failed"), (choice, last)
            assert ("it gave 6\n2\n" in str(last.content[1].content.text if last.content else "")) == ran, last

        # A cell that prints for ever: at most four updates a second, until it is cancelled.
        editor.forget()
        Model.script = [python(ENDLESS)]
        running = asyncio.create_task(connection.prompt(session_id=session, prompt=[text_block("Count.")]))
        await editor.hears(lambda update: update.session_update == "tool_call_update" and update.content)
        before, begun = len(editor.updates), time.monotonic()
        await asyncio.sleep(2)
        rate = (len(editor.updates) - before) / (time.monotonic() - begun)
        assert 1 < rate <= 5, rate
        begun = time.monotonic()
        await connection.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        stopped = time.monotonic() - begun
        assert stopped < 10, stopped

        # No file outside of the directory is read.
        for outside in [directory / "secret", project / "out", pathlib.Path("/etc/passwd")]:
            reason = await prompt(text_block("Read "), link(outside))
            assert reason == "refusal" and "directory of this session" in editor.said(), editor.said()
            assert not Model.script

        await connection.set_config_option(session_id=session, config_id="approvals", value="always")
        reason = await prompt(
            text_block("Continue."), script=[python("print(6 * 7)"), answer("42")], choices=["accept_rest"]
        )
        assert reason == "end_turn" and len(editor.asked) == 1, (reason, editor.asked)
        await connection.set_session_mode(session_id=session, mode_id="never")
        reason = await prompt(text_block("Continue."), script=[python(RISKY), answer("It gave 6.")])
        assert reason == "end_turn" and not editor.asked, (reason, editor.asked)
        listed = await connection.list_sessions(cwd=str(project))
        assert [info.session_id for info in listed.sessions] == [session], listed
        assert listed.sessions[0].title == "What is the total of `data/sales.csv`?", listed

    # Another process: the session is shown again, and continues with its variables.
    editor = Editor()
    async with connected(editor, directory) as connection:
        await connection.load_session(cwd=str(project), mcp_servers=[], session_id=session)
        assert len(editor.of_kind("user_message_chunk")) == 7, editor.of_kind("user_message_chunk")
        assert "The total is 42." in editor.said()
        images = [part for update in editor.of_kind("tool_call_update") for part in update.content or []]
        assert any(part.type == "content" and part.content.type == "image" for part in images)
        editor.forget()
        Model.script = [python("print('still', sales.sold.sum())"), answer("Still 42.")]
        done = await connection.prompt(session_id=session, prompt=[text_block("Once more.")])
        assert done.stop_reason == "end_turn" and "still 42" in str(editor.updates), editor.updates
        await connection.close_session(session_id=session)
    print(f"the library of PyPI: ok ({rate:.1f} updates a second, cancelled after {stopped:.2f} s)")


def acpx(directory):
    """The same by a client that answers permissions by a rule."""
    project = directory / "acpx"
    project.mkdir()
    runs = directory / "acpx-runs"
    environment = {**os.environ, "BELLJAR_RUNS_DIR": str(runs), "HOME": str(directory)}
    agent = f"{PROGRAM} acp --model llamacpp/scripted --base-url {URL} --dialect native"
    # It exits with 5 if it has denied everything that was asked for.
    for rule, gave, status in [("--approve-all", True, 0), ("--deny-all", False, 5)]:
        Model.script = [python(RISKY), python("print('It is', 7)"), answer("It is 7.")]
        command = [NODE, ACPX, rule, "--cwd", project, "--agent", agent, "exec", "Do it."]
        done = subprocess.run(command, env=environment, cwd=project, capture_output=True, text=True, timeout=120)
        output = done.stdout + done.stderr
        assert "It is 7." in output and done.returncode == status, (rule, done.returncode, output)
        assert ("it gave 6" in output) == gave, (rule, output)
    print("acpx: ok")


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    URL = f"http://127.0.0.1:{server.server_port}/v1"
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(library(pathlib.Path(scratch)))
        acpx(pathlib.Path(scratch))
