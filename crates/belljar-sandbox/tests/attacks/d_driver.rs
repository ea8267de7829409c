//! D: the driver, its process, and the template that it was forked from.

use belljar_sandbox::protocol::{Cause, Event, Fate, InspectDetail};

use crate::harness::{CANARY_VARIABLE, Case, Severity, parent_id};
use crate::support::{eventually, good};

#[tokio::test(flavor = "multi_thread")]
async fn d3_descriptors() {
    let case = Case::begin(
        "D3",
        Severity::Escape,
        "list /proc/self/fd",
        "exactly the five of a session: no directory of the host, no listener, nothing of a sibling",
    )
    .await;
    let session = case.session().await;
    let code = "import os\nfor fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n    try: print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])\n    except FileNotFoundError: pass";
    let golden = "0 /dev/null\n1 pipe\n2 pipe\n3 socket\n4 pipe\n";
    assert_eq!(case.printed(&session, code).await, golden);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_output_after_the_cell() {
    let case = Case::begin(
        "D7",
        Severity::Integrity,
        "a thread prints and displays after its cell has ended",
        "it is reported with the session's next cell, marked as written between the cells; displays are dropped; no other session sees any",
    )
    .await;
    let session = case.session().await;
    let other = case.session().await;
    let code = r#"
import sys, threading, time
STATE = sys.modules["belljar_guest.state"].STATE
def later():
    while STATE.cell:
        time.sleep(0.001)
    time.sleep(0.3)  # the host empties the pipes once more after it has heard of the end
    print("late", flush=True)
    display("late display")
    print("late error", file=sys.stderr, flush=True)
    open("written", "w").close()
threading.Thread(target=later).start()
"#;
    let outcome = case.outcome(&session, code).await;
    assert_eq!((outcome.stdout.bytes, outcome.stderr.bytes), (0, 0));
    eventually("the late output", || session.get("written").is_ok()).await;
    assert_eq!(case.printed(&other, "print('other')").await, "other\n");
    let outcome = case.outcome(&session, "print('next')").await;
    assert_eq!(outcome.stdout.text, "late\nnext\n");
    assert_eq!(outcome.stderr.text, "late error\n");
    assert_eq!(outcome.displays, []);
    let mark = "the first 16 bytes of the output were written between the cells, by a thread or process of an earlier one";
    assert_eq!(outcome.notes, [mark]);
    let outcome = case.outcome(&session, "print('third')").await;
    assert_eq!(
        (outcome.stdout.text.as_str(), outcome.notes.len()),
        ("third\n", 0)
    );
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_children_and_the_channel() {
    let case = Case::begin(
        "D8",
        Severity::Integrity,
        "children by subprocess, by os.fork, by posix_spawn and by fork and exec look for the control channel",
        "none has descriptor 3 or 4; what a child writes there fails, and the parent's cell continues",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import os, subprocess, sys
look = "import os\nfor fd in (3, 4):\n    try: os.fstat(fd); print(fd, 'open', flush=True)\n    except OSError as error: print(fd, error.strerror, flush=True)"
subprocess.run([sys.executable, "-c", look], close_fds=False)
os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", look], os.environ), 0)
pid = os.fork()
if pid == 0:
    exec(look)
    os.execv(sys.executable, [sys.executable, "-c", look])
os.waitpid(pid, 0)
"#;
    let refused = "3 Bad file descriptor\n4 Bad file descriptor\n";
    assert_eq!(case.printed(&session, code).await, refused.repeat(4));
    // A child that comes to the end of the cell answers nothing in its parent's name.
    let text = case
        .printed(
            &session,
            "pid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])",
        )
        .await;
    assert_eq!(text, "0\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_pickles() {
    let case = Case::begin(
        "D9",
        Severity::Escape,
        "a pickle that runs a command when it is loaded, as value, as display of type application/x-pickle, as exception, as file",
        "it arrives as the bytes that it is: nothing of the host reads it as more",
    )
    .await;
    let session = case.session().await;
    let planted = case.canaries.file.with_file_name("planted");
    let code = format!(
        r#"
import json, os, pickle, struct, sys
STATE = sys.modules["belljar_guest.state"].STATE
class Bomb:
    def __reduce__(self):
        return os.system, ("touch {}",)
    def _repr_mimebundle_(self, **options):
        return {{"application/x-pickle": bomb}}
    def __repr__(self):
        return bomb.decode("latin-1")
bomb = pickle.dumps(Bomb(), 0)
open("bomb.pkl", "wb").write(bomb)
display(Bomb())
# Past the driver, which makes text of it.
header = json.dumps({{
    "type": "display", "cell": STATE.cell, "nonce": STATE.nonce,
    "parts": [{{"mime": "application/x-pickle", "len": len(bomb)}}],
}}).encode()
os.write(3, struct.pack("<II", len(header), len(bomb)) + header + bomb)
raise ValueError(Bomb())
"#,
        planted.display()
    );
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.cause, Cause::Exception, "{outcome:#?}");
    let bomb = session.get("bomb.pkl").unwrap();
    assert!(bomb.starts_with(b"cposix\nsystem"), "{bomb:?}");
    for display in &outcome.displays {
        assert_eq!(display.get("application/x-pickle").unwrap().data, bomb);
    }
    assert_eq!(outcome.displays.len(), 2);
    assert_eq!(outcome.exception.unwrap().value.as_bytes(), bomb);
    session.manifest().await.unwrap();
    assert!(!planted.exists(), "the pickle was loaded");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d10a_modules_in_the_workspace() {
    let case = Case::begin(
        "D10a",
        Severity::Integrity,
        "a file in the workspace for each module of the standard library, and poisoned bytecode beside them",
        "the driver imports none of them: values, tracebacks, warnings, await, completion, seeds, the manifest and interrupts do without",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import importlib.util, marshal, os, sys
poison = "import os; os.write(1, b'hijacked by %s\\n')"
for name in sys.stdlib_module_names | {"belljar_guest", "sitecustomize", "usercustomize"}:
    with open(name + ".py", "w") as file:
        file.write(poison % name)
    # Bytecode that is never compared with its source.
    program = compile(poison % (name + " by bytecode"), name, "exec")
    data = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(program)
    os.makedirs("__pycache__", exist_ok=True)
    for path in (importlib.util.cache_from_source(name + ".py"), name + ".pyc"):
        with open(path, "wb") as file:
            file.write(data)
"#;
    case.printed(&session, code).await;
    for (cell, succeeds) in [
        ("6 * 7", true),
        ("display({'a': [1, 2]}, 'text', b'bytes', 1.5)", true),
        ("1 / 0", false),
        (
            "try: 1 / 0\nexcept Exception as error: raise ValueError('two') from error",
            false,
        ),
        ("raise Exception('one')", false),
        ("def (", false),
        ("'\\d' is 'x'", true),
        ("async def wait(): return 5\nawait wait()", true),
        ("open('out.txt', 'w').write('x')", true),
        ("raise SystemExit('words')", false),
        (
            "class Bad:\n    def __repr__(self): raise ValueError\nBad()",
            true,
        ),
    ] {
        let outcome = case.outcome(&session, cell).await;
        assert_eq!(outcome.is_success(), succeeds, "{cell}: {outcome:#?}");
        assert!(
            !outcome.transcript.contains("hijacked"),
            "{cell}: {outcome:#?}"
        );
    }
    let values = [("seeded".to_owned(), serde_json::json!([1]))]
        .into_iter()
        .collect();
    session.seed(&values).await.unwrap();
    session.manifest().await.unwrap();
    session.complete("see", 3).await.unwrap();
    let run = session.run("import sys\nopen('began', 'w').close()\nwhile True: pass");
    eventually("the cell", || session.get("began").is_ok()).await;
    assert!(session.interrupt());
    let outcome = run.await.unwrap();
    assert_eq!(outcome.cause, Cause::Interrupted);
    assert_eq!(outcome.transcript, "");
    // The control: Python itself takes them, in user code.
    let text = case.printed(&session, "import this").await;
    assert_eq!(text, "hijacked by this by bytecode\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d10b_startup_files() {
    let case = Case::begin(
        "D10b",
        Severity::Integrity,
        "sitecustomize, usercustomize, .pth files, PYTHONSTARTUP, PYTHONPATH, PYTHONHOME, PYTHONINSPECT, set for what starts later",
        "children of the session are its own affair; its driver, and sessions that start later, take none of it",
    )
    .await;
    let session = case.session().await;
    let code = r#"
import os, site, subprocess, sys
for name in ("sitecustomize.py", "usercustomize.py", "startup.py"):
    open(name, "w").write("print('hijacked')")
user = site.getusersitepackages()
os.makedirs(user)
open(user + "/evil.pth", "w").write("import os; os.write(1, b'hijacked')\n")
os.environ.update(PYTHONPATH="/workspace", PYTHONSTARTUP="/workspace/startup.py", PYTHONINSPECT="1")
child = subprocess.run([sys.executable, "-c", "pass"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
print("hijacked" in child.stdout)
os.environ["PYTHONHOME"] = "/workspace"
"#;
    assert_eq!(case.printed(&session, code).await, "True\n");
    let outcome = case.outcome(&session, "6 * 7").await;
    assert_eq!(outcome.displays[0].text(), Some("42"));
    assert_eq!(outcome.transcript, "");
    let next = case.session().await;
    let look = "import os, sys\nprint([name for name in os.environ if name.startswith('PYTHON')], 'sitecustomize' in sys.modules, os.listdir('/workspace'), os.listdir('/tmp'))";
    assert_eq!(
        case.printed(&next, look).await,
        "['PYTHONDONTWRITEBYTECODE'] False [] []\n"
    );
    case.end([session, next]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_audit_hooks() {
    let case = Case::begin(
        "D11",
        Severity::Escape,
        "Python's audit hooks: a hook that forbids everything is passed by with ctypes",
        "no hook is a wall, and none is used as one: the walls refuse the same with and without it",
    )
    .await;
    let code = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*arguments)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "allowed"
def guard(event, arguments):
    if event in ("open", "socket.__new__"):
        raise RuntimeError("forbidden by the hook")
sys.addaudithook(guard)
try:
    open("x", "w")
except RuntimeError as error:
    print(error)
print(call(2, b"x", os.O_CREAT | os.O_WRONLY, 0o644), os.path.exists("x"))  # open
print(call(41, 16, 3, 0))  # socket, AF_NETLINK
print(call(272, 0x10000000))  # unshare, CLONE_NEWUSER
"#;
    let control = case.control(code).await;
    let hook = "forbidden by the hook\nallowed True\n";
    assert_eq!(
        control.stdout,
        format!("{hook}allowed\nallowed\n"),
        "{control:?}"
    );
    let session = case.session().await;
    // The driver survives a hook that forbids it everything.
    let text = case.printed(&session, code).await;
    assert_eq!(text, format!("{hook}EAFNOSUPPORT\nEPERM\n"));
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d12_the_template() {
    let case = Case::begin(
        "D12",
        Severity::Lateral,
        "ptrace, process_vm_writev and /proc/*/mem on the parent, on init and on a child; changes to all shared pages; a look for shared mappings",
        "the parent can't be named, all three are refused; no mapping is shared and writable; a later session has the template's bytes",
    )
    .await;
    let reach = r#"
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    result = function(*arguments)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "allowed"
def opened(path):
    try:
        os.open(path, os.O_RDWR)
        return "allowed"
    except OSError as error:
        return errno.errorcode[error.errno]
place = ctypes.create_string_buffer(b"before", 8)
piece = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(place), 8))
child = os.fork()
if child == 0:
    libc.pause()
for pid in TARGETS:
    print(
        call(libc.process_vm_writev, pid, piece, 1, piece, 1, 0),
        call(libc.process_vm_readv, pid, piece, 1, piece, 1, 0),
        opened(f"/proc/{pid}/mem"),
        call(libc.ptrace, 16, pid, 0, 0),
    )
os.kill(child, 9)
os.waitpid(child, 0)
"#;
    let to = |targets: &str| reach.replace("TARGETS", targets);
    let control = case.control(&to("(child,)")).await;
    let allowed = "allowed allowed allowed allowed\n";
    assert_eq!(control.stdout, allowed, "{control:?}");
    let session = case.session().await;
    let text = case.printed(&session, to("(child, 1)")).await;
    assert_eq!(text, "EPERM EPERM EACCES EPERM\nEPERM EPERM ENOENT EPERM\n");
    let parent = r#"
print(os.getppid(), os.path.exists("/proc/0"), sorted(name for name in os.listdir("/proc") if name.isdigit()) == [str(os.getpid())])
shared = [line.split() for line in open("/proc/self/maps") if line.split()[1].endswith("s")]
print([fields for fields in shared if "w" in fields[1]])
"#;
    let id = parent_id();
    assert_eq!(
        case.printed(&session, parent).await,
        format!("{id} False True\n[]\n")
    );
    let hash = r#"
import hashlib, sys, types
total = hashlib.sha256()
for name in sorted(sys.modules):
    for key, value in sorted(vars(sys.modules[name]).items()):
        if isinstance(value, types.FunctionType):
            total.update(f"{name}.{key}".encode() + value.__code__.co_code)
        elif isinstance(value, (str, int, bytes)) and key != "__warningregistry__":
            total.update(f"{name}.{key}={value!r}".encode())
print(total.hexdigest())
"#;
    let before = case.session().await;
    let expected = case.printed(&before, hash).await;
    // Overwrites, in its own copy of the template's pages: bytecode, texts, small numbers.
    let damage = r#"
import ctypes, sys, types
for module in list(sys.modules.values()):
    for key, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType):
            value.__code__ = (lambda *a, **k: None).__code__ if not value.__code__.co_freevars else value.__code__
        elif isinstance(value, str):
            try: setattr(module, key, "changed")
            except Exception: pass
for number in range(200, 257):
    ctypes.memset(id(number) + 24, 0, 4)
import os
os._exit(0)
"#;
    case.fails(&session, damage).await;
    let after = case.session().await;
    assert_eq!(case.printed(&after, hash).await, expected);
    case.end([session, before, after]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d13_variables() {
    let case = Case::begin(
        "D13",
        Severity::HostLeak,
        "os.environ, /proc/self/environ, and the environments of all processes it can see",
        "a fixed list of names, the same in both; nothing of the host's environment",
    )
    .await;
    let code = r#"
import os
def names(path):
    try:
        return sorted(part.split("=")[0] for part in open(path).read().split("\0") if part)
    except FileNotFoundError:
        return "hidden"
print(*sorted(os.environ))
print(names("/proc/self/environ") == sorted(os.environ), names("/proc/1/environ"))
"#;
    let leak = format!("import os\nprint(os.environ['{CANARY_VARIABLE}'][:6])");
    let control = case.control(&leak).await;
    assert_eq!(control.stdout, "CANARY\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "HOME JE_ARROW_MALLOC_CONF LANG LC_ALL MKL_NUM_THREADS MPLBACKEND OMP_NUM_THREADS OPENBLAS_NUM_THREADS OPENBLAS_THREAD_TIMEOUT PATH PYTHONDONTWRITEBYTECODE TMPDIR\nTrue hidden\n"
    );
    let outcome = case.fails(&session, leak).await;
    assert_eq!(outcome.exception.unwrap().type_name, "KeyError");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_no_control_server() {
    let case = Case::begin(
        "D14",
        Severity::Escape,
        "a look for a server that controls the session: listening sockets, the other end of descriptor 3",
        "nothing listens; descriptor 3 is one end of an unnamed pair whose other end is in no process of the session",
    )
    .await;
    let code = r#"
import os, socket, struct
for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "unix"):
    print(kind, len(open("/proc/net/" + kind).readlines()) - 1)
channel = socket.socket(fileno=3)
print(channel.family.name, channel.type.name, repr(channel.getsockname()), repr(channel.getpeername()))
print("process of the peer:", struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
print("accepts connections:", channel.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
channel.detach()
"#;
    let served = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\nprint(len(open('/proc/net/tcp').readlines()) - 1)";
    let control = case.control(served).await;
    assert_eq!(control.stdout, "1\n", "{control:?}");
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "tcp 0\ntcp6 0\nudp 0\nudp6 0\nraw 0\nunix 0\nAF_UNIX SOCK_STREAM '' ''\nprocess of the peer: 0\naccepts connections: 0\n"
    );
    good(&session, "1").await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d15a_the_notebook_shell() {
    let case = Case::begin(
        "D15a",
        Severity::Integrity,
        "get_ipython, its methods, its magics, subprocess, the rewrite's own pattern and sys.meta_path replaced or broken, also by modules in the workspace",
        "its own notation breaks; plain cells, values, completion and inspection do not",
    )
    .await;
    let mut sessions = Vec::new();
    for vandal in [
        "import builtins\ndel builtins.get_ipython",
        "shell = get_ipython()\ntype(shell).system = type(shell).run_line_magic = None\nshell.user_ns = None",
        "import subprocess, os\nsubprocess.Popen = os.killpg = os.fork = None\nsubprocess._posixsubprocess = None",
        "import sys\nfor module in list(sys.modules.values()):\n    if getattr(module, '__name__', '').startswith('belljar_guest.magics'): vars(module).clear()",
        "import sys, belljar_guest.rewrite as rewrite\nrewrite._PIECE = rewrite._CELL = None",
        "import sys\nsys.meta_path.clear()\nsys.modules.clear()",
        "import sys\nclass Finder:\n    def find_spec(self, *_): raise SystemExit('hijacked')\nsys.meta_path.insert(0, Finder())",
        "import codeop, inspect\ncodeop._maybe_compile = inspect.signature = inspect.getdoc = None",
        "for name in ('subprocess', 'timeit', 'shlex', 'codeop', 'tempfile', 'signal', 'selectors'):\n    open(name + '.py', 'w').write('raise SystemExit(\"hijacked\")')",
        "class Names(dict):\n    def __missing__(self, name): raise SystemExit('hijacked')\nget_ipython().user_ns = Names()",
    ] {
        let session = case.session().await;
        let outcome = case.outcome(&session, vandal).await;
        assert_eq!(outcome.state, Fate::Kept, "{vandal}: {outcome:#?}");
        // Whatever this does, it ends as a cell does.
        for code in ["!echo {1}\n%who", "%%time\n1", "x = = 1", "len?"] {
            let outcome = case.outcome(&session, code).await;
            assert_eq!(outcome.state, Fate::Kept, "{vandal}: {code}: {outcome:#?}");
            assert!(
                !matches!(outcome.cause, Cause::Protocol { .. }),
                "{outcome:#?}"
            );
        }
        let _ = session.is_complete("for x in y:").await.unwrap();
        let documentation = InspectDetail::Documentation;
        let _ = session.inspect("len", 3, documentation).await.unwrap();
        session.complete("le", 2).await.unwrap();
        let outcome = case.outcome(&session, "6 * 7").await;
        assert_eq!(outcome.displays[0].text(), Some("42"), "{vandal}");
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d15b_a_flood_of_changed_displays() {
    let case = Case::begin(
        "D15b",
        Severity::HostDos,
        "displays changed and cleared without end past the driver's limits; ids and metadata of megabytes, metadata that is nested or no object",
        "10,000 changes and 256 MiB are read, 32 MiB become events; then, and for what is too long, the session ends",
    )
    .await;
    let send = "from belljar_guest import wire\nfrom belljar_guest.state import STATE\ndef send(blob=b'', **more):\n    kind = more.pop('type', 'display')\n    wire.send({'type': kind, 'cell': STATE.cell, 'nonce': STATE.nonce, 'parts': [{'mime': 'text/plain', 'len': len(blob)}], **more}, blob)\n";
    let mut sessions = Vec::new();
    for flood in [
        "for _ in range(20_000): send(b'x', id='a', update=True)",
        "for _ in range(1000): send(b'x' * (1 << 20), id='a', update=True)",
        "for _ in range(20_000): send(type='clear', wait=False)",
        "for _ in range(1000): send(b'x' * (1 << 20)); send(type='clear', wait=True)",
        "send(b'x', id='a' * (1 << 20))",
        "send(b'x', metadata='{\"a\": \"' + 'a' * (1 << 20) + '\"}')",
        "send(b'x', metadata='[' * 10_000)",
        "send(b'x', metadata='[]')",
        "send(b'x', metadata={'a': 1})",
    ] {
        let session = case.session().await;
        let mut run = session.run(format!("{send}{flood}"));
        let mut bytes = 0;
        let outcome = loop {
            match run.next().await.unwrap().unwrap() {
                Event::Display(display) => bytes += display.parts[0].data.len(),
                Event::Outcome(outcome) => break outcome,
                _ => {}
            }
        };
        let is_protocol = matches!(outcome.cause, Cause::Protocol { .. });
        assert!(is_protocol, "{flood}: {:?}", outcome.cause);
        assert!(bytes <= 32 << 20, "{flood}: {bytes}");
        sessions.push(session);
    }
    case.end(sessions).await;
}
