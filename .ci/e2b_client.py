"""Every method of E2B's SDK that docs/e2b.md lists, against the service of the environment's variables.

The tables of that page and the steps below name the same methods: each is called, and works or is refused as the page
says. The example of the page is run, too. What this version of the client does not have is printed.
"""

import asyncio
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from importlib.metadata import version
from pathlib import Path

import e2b_proxy
import httpcore
import page_steps
from e2b import CommandExitException, NotFoundException, SandboxException, TimeoutException
from e2b.connection_config import ConnectionConfig
from e2b_code_interpreter import AsyncSandbox, Sandbox
from page_steps import refused, works

PAGE = Path(__file__).parent.parent / "docs" / "e2b.md"
VERSION = version("e2b")
NUMBERS = tuple(map(int, VERSION.split(".")))
NEWEST = NUMBERS >= (2, 63)
# Old versions raise that of their HTTP library, where its timer is the first.
LATE = TimeoutException if NUMBERS >= (2, 45) else (TimeoutException, httpcore.ReadTimeout)


def has(owner, *methods):
    """Whether this version of the client has these methods. If not, it is printed."""
    missing = [method for method in methods if not hasattr(owner, method)]
    if missing:
        print(f"          not in {VERSION}: {', '.join(missing)}")
    return not missing


def raises(call, *words, kind=SandboxException):
    try:
        value = call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return error
    raise AssertionError(f"it returned {value!r}")


def eventually(found):
    """What a function returns once that is something."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen")


@works("Sandbox.create", "Sandbox.connect", "kill", "is_running", "get_info", "set_timeout", "Sandbox.list")
def lifecycle(sandbox):
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.metadata == {"step": "lifecycle"}, info
    assert 0 < (info.end_at - info.started_at).total_seconds() <= 120.5, info
    sandbox.set_timeout(600)
    assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 400
    pages = Sandbox.list(limit=1)
    listed = []
    while pages.has_next:
        listed += pages.next_items()
    assert sandbox.sandbox_id in [one.sandbox_id for one in listed], listed
    other = Sandbox.connect(sandbox.sandbox_id)
    assert other.is_running()
    assert other.commands.run("echo here").stdout == "here\n"
    assert other.kill() and not other.kill()
    assert not sandbox.is_running()
    raises(lambda: Sandbox.connect(sandbox.sandbox_id), "not found", kind=Exception)


@works("run_code")
def code(sandbox):
    execution = sandbox.run_code("x = 6 * 7\nprint('out')\nx")
    assert execution.text == "42" and execution.error is None, execution
    assert execution.logs.stdout == ["out\n"] and execution.execution_count == 1, execution
    assert sandbox.run_code("'it'").text == "it"
    out, err, results, errors = [], [], [], []
    execution = sandbox.run_code(
        "import os, sys\nprint(os.environ['A'])\nprint('e', file=sys.stderr)\nx\n",
        envs={"A": "b"},
        on_stdout=lambda message: out.append(message.line),
        on_stderr=lambda message: err.append(message.line),
        on_result=results.append,
        on_error=errors.append,
    )
    assert (out, err, errors) == (["b\n"], ["e\n"], []), (out, err, errors)
    assert results[0].is_main_result and results[0].text == "42", results
    failed = sandbox.run_code("class Odd(Exception): pass\nraise Odd('value')")
    assert (failed.error.name, failed.error.value) == ("Odd", "value"), failed.error
    assert "line 2" in failed.error.traceback, failed.error.traceback
    assert sandbox.run_code("x").text == "42"
    assert sandbox.run_code("print('shell')", language="python").logs.stdout == ["shell\n"]
    assert sandbox.run_code("echo $((6 * 7))", language="bash").logs.stdout == ["42\n"]
    figure = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert any(result.png for result in figure.results), figure
    table = sandbox.run_code("import pandas\npandas.DataFrame({'a': [1, 2]})")
    assert "<table" in table.results[0].html, table
    # A timeout of the client interrupts the cell, and the variables are kept.
    began = time.monotonic()
    raises(lambda: sandbox.run_code("y = 1\nimport time\ntime.sleep(60)", timeout=1), kind=TimeoutException)
    assert sandbox.run_code("x + y").text == "43"
    assert time.monotonic() - began < 40


@works("list_code_contexts", "create_code_context", "restart_code_context", "remove_code_context")
def contexts(sandbox):
    if not has(sandbox, "list_code_contexts", "restart_code_context", "remove_code_context"):
        context = sandbox.create_code_context()
        sandbox.run_code("of = 'another'", context=context)
        assert sandbox.run_code("of", context=context).text == "another"
        assert sandbox.run_code("of").error.name == "NameError"
        return
    (default,) = sandbox.list_code_contexts()
    assert default.language == "python" and default.cwd == "/home/user", default
    assert sandbox.run_code("of = 'default'; 1 + 1", context=default).text == "2"
    sandbox.commands.run("mkdir -p elsewhere")
    context = sandbox.create_code_context(cwd="/home/user/elsewhere", language="python")
    assert context.cwd == "/home/user/elsewhere", context
    ran = sandbox.run_code("import os; of = 'another'; os.path.basename(os.getcwd())", context=context)
    assert ran.text == "elsewhere", ran
    assert sandbox.run_code("of").text == "default"
    assert sandbox.run_code("of", context=context).text == "another"
    assert [one.id for one in sandbox.list_code_contexts()] == [default.id, context.id]
    sandbox.restart_code_context(context)
    assert sandbox.run_code("of", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    raises(lambda: sandbox.run_code("1", context=context), "No such namespace", kind=NotFoundException)
    raises(lambda: sandbox.remove_code_context("default"), "removed")
    raises(lambda: sandbox.create_code_context(language="r"), "is not here")
    raises(lambda: sandbox.run_code("1", language="r"), "is not here")


@works("files.write", "files.read", "files.write_files", "files.exists", "files.get_info", "files.list")
def contents(sandbox):
    files = sandbox.files
    written = files.write("a.txt", "text é")
    assert written.path == "/home/user/a.txt", written
    assert files.read("/home/user/a.txt") == "text é"
    assert files.read("~/a.txt", format="bytes") == "text é".encode()
    files.write("/tmp/b.bin", bytes(range(256)) * 1000)
    assert b"".join(files.read("/tmp/b.bin", format="stream")) == bytes(range(256)) * 1000
    if NEWEST:
        files.write("zipped", "z" * 100_000, gzip=True)
        assert files.read("zipped") == "z" * 100_000
        files.write("raw", "r", use_octet_stream=True)
        assert files.read("raw") == "r"
    both = files.write_files([{"path": "/home/user/d/one", "data": "1"}, {"path": "d/two", "data": b"2"}])
    assert [one.path for one in both] == ["/home/user/d/one", "/home/user/d/two"], both
    assert sorted(one.name for one in files.list("d")) == ["one", "two"]
    names = [one.path for one in files.list("/home/user", depth=2)]
    assert "/home/user/d/one" in names and "/home/user/a.txt" in names, names
    assert files.exists("d/one") and not files.exists("d/three")
    info = files.get_info("a.txt")
    assert (info.name, info.size, info.owner) == ("a.txt", 7, "user"), info
    assert info.permissions.startswith("-rw"), info
    assert sandbox.run_code("print(open('d/one').read())").logs.stdout == ["1\n"]
    raises(lambda: files.read("nothing"), "does not exist", kind=NotFoundException)
    raises(lambda: files.read("d"), "is a directory")
    raises(lambda: files.list("a.txt"), "not a directory")
    raises(lambda: files.read("/etc/passwd"), "permission denied")
    raises(lambda: files.write("../x", "x"))
    raises(lambda: files.write("x" * 300, "x"))


@works("files.make_dir", "files.rename", "files.remove")
def directories(sandbox):
    files = sandbox.files
    assert files.make_dir("deep/er") and not files.make_dir("deep/er")
    files.write("deep/er/file", "1")
    raises(lambda: files.make_dir("deep/er/file"), "already exists", "not a directory")
    moved = files.rename("deep/er/file", "/home/user/moved")
    assert moved.path == "/home/user/moved" and files.read("moved") == "1", moved
    files.remove("deep")
    assert not files.exists("deep")
    files.remove("deep")


@works("files.watch_dir")
def watch(sandbox):
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/new", "1")
    seen = []
    eventually(lambda: seen.extend(handle.get_new_events()) or "new" in [event.name for event in seen])
    handle.stop()


@refused("files.watch_dir(recursive=True)")
def watch_all(sandbox):
    raises(lambda: sandbox.files.watch_dir(".", recursive=True), "recursive")


@works("download_url", "upload_url")
def signed(sandbox):
    sandbox.files.write("signed.txt", "for all")
    url = sandbox.download_url("signed.txt", use_signature_expiration=60)
    with urllib.request.urlopen(url) as response:
        assert response.read() == b"for all"
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="up"\r\n\r\nup\r\n--b--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    request = urllib.request.Request(sandbox.upload_url("up.txt"), body, headers)
    urllib.request.urlopen(request).close()
    assert sandbox.files.read("up.txt") == "up"
    for wrong in [url.replace("signed.txt", "up.txt"), sandbox.upload_url("signed.txt")]:
        error = raises(lambda: urllib.request.urlopen(wrong), kind=urllib.error.HTTPError)
        assert error.code == 401, error


@works("commands.run", "commands.list", "commands.kill", "commands.connect")
def commands(sandbox):
    run = sandbox.commands.run
    result = run("pwd; echo $HOME; whoami >/dev/null; echo err >&2")
    assert result.stdout.split() == ["/home/user", "/home/user"], result
    assert result.stderr == "err\n" and result.exit_code == 0, result
    assert run("echo $A; pwd", envs={"A": "b c"}, cwd="/tmp").stdout == "b c\n/tmp\n"
    error = raises(lambda: run("echo before; exit 3"), kind=CommandExitException)
    assert (error.exit_code, error.stdout) == (3, "before\n"), error
    raises(lambda: run("true", cwd="/nowhere"))
    parts = []
    run("for i in 1 2 3; do echo $i; done", on_stdout=parts.append)
    assert "".join(parts) == "1\n2\n3\n", parts
    began = time.monotonic()
    raises(lambda: run("sleep 30", timeout=1), kind=LATE)
    assert time.monotonic() - began < 15
    handle = run("sleep 100", background=True)
    listed = [process for process in sandbox.commands.list() if process.pid == handle.pid]
    assert listed and listed[0].cmd == "/bin/bash" and listed[0].args[-1] == "sleep 100", listed
    again = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid)
    raises(again.wait, kind=CommandExitException)
    raises(handle.wait, kind=CommandExitException)
    assert not sandbox.commands.kill(handle.pid)


@works("commands.send_stdin", "commands.close_stdin")
def command_input(sandbox):
    closes = has(sandbox.commands, "close_stdin")
    handle = sandbox.commands.run("cat" if closes else "head -n 1", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "typed\n")
    if closes:
        sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "typed\n"


@works("commands.stream_input")
def command_stream(sandbox):
    if not has(sandbox.commands, "stream_input"):
        return
    handle = sandbox.commands.run("head -n 3", background=True, stdin=True)
    sandbox.commands.stream_input(handle.pid, (f"{number}\n" for number in range(3)))
    assert handle.wait().stdout == "0\n1\n2\n"


@works("pty.create", "pty.send_stdin", "pty.resize", "pty.kill", "pty.connect")
def terminal(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    handle = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(handle.pid, PtySize(rows=30, cols=101))
    again = sandbox.pty.connect(handle.pid) if has(sandbox.pty, "connect") else None
    sandbox.pty.send_stdin(handle.pid, b"stty size; exit\n")
    seen = b""
    for _, _, terminal_output in handle:
        seen += terminal_output or b""
    assert b"30 101" in seen, seen
    if again:
        again.disconnect()
    other = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(other.pid)


@works("pause")
def pause(sandbox):
    sandbox.run_code("kept = [1, 2]")
    sandbox.files.write("kept.txt", "kept")
    sandbox.pause() if has(sandbox, "pause") else sandbox.beta_pause()
    assert not sandbox.is_running()
    states = [one.state.value for one in Sandbox.list().next_items() if one.sandbox_id == sandbox.sandbox_id]
    assert states == ["paused"], states
    raises(lambda: sandbox.files.read("kept.txt"))
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.run_code("kept").text == "[1, 2]"
    assert again.files.read("kept.txt") == "kept"


@works("fork", "get_metrics")
def fork(sandbox):
    (use,) = sandbox.get_metrics()
    assert use.mem_used > 0 and use.mem_total > use.mem_used, use
    if not has(sandbox, "fork"):
        return
    sandbox.run_code("a = 1")
    (other,) = sandbox.fork(timeout=60)
    assert other.run_code("a += 1\na").text == "2"
    assert sandbox.run_code("a").text == "1"
    other.kill()


@refused("create_snapshot", "update_network", "Sandbox.create(mcp=…)", "Template.build")
def not_here(sandbox):
    if not has(sandbox, "create_snapshot", "update_network"):
        return
    raises(sandbox.create_snapshot, "fork")
    raises(lambda: sandbox.update_network({"allow_out": ["example.org"]}), "cannot change")
    raises(lambda: Sandbox.create(mcp={"github": {}}), "MCP")
    raises(lambda: Sandbox.create("nothing-like-it"), "default", kind=Exception)
    from e2b import Template

    raises(lambda: Template.alias_exists("x"), "operator", kind=Exception)


async def asynchronous():
    sandbox = await AsyncSandbox.create(timeout=120)
    execution = await sandbox.run_code("6 * 7")
    assert execution.text == "42"
    assert (await sandbox.commands.run("echo async")).stdout == "async\n"
    began = time.monotonic()
    try:
        await sandbox.commands.run("sleep 30", timeout=1)
        raise AssertionError("no timeout")
    except LATE:
        assert time.monotonic() - began < 15
    await sandbox.files.make_dir("watched")
    seen = asyncio.Event()
    handle = await sandbox.files.watch_dir("watched", on_event=lambda event: seen.set())
    await sandbox.files.write("watched/new", "1")
    await asyncio.wait_for(seen.wait(), 20)
    await handle.stop()
    assert await sandbox.kill()


def through_proxy():
    """Every name of the domain leads to the service: what `proxy=` of each call would do."""
    service = urllib.parse.urlsplit(os.environ["E2B_SERVICE"])
    os.environ["https_proxy"] = proxy = e2b_proxy.start(service.hostname, service.port)
    init = ConnectionConfig.__init__

    def init_with_proxy(self, *args, **options):
        init(self, *args, **{**options, "proxy": proxy})

    ConnectionConfig.__init__ = init_with_proxy


def main():
    page_steps.check(PAGE)
    if "E2B_DOMAIN" in os.environ:
        through_proxy()
    chosen = [step for step in page_steps.steps if not sys.argv[1:] or step[0].__name__ in sys.argv[1:]]
    for function, _, _ in chosen:
        began = time.monotonic()
        sandbox = Sandbox.create(timeout=120, metadata={"step": function.__name__})
        try:
            function(sandbox)
        finally:
            sandbox.kill()
        print(f"{time.monotonic() - began:6.2f} s  {function.__name__}", flush=True)
    asyncio.run(asynchronous())
    page_steps.run_examples(PAGE)
    page_steps.run_programs(PAGE.with_name("side-by-side.md"), "e2b")


main()
