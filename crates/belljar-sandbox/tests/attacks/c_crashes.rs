//! C: crashes of the interpreter.

use belljar_sandbox::protocol::{Cause, Fate, Status};
use belljar_sandbox::{Error, Limits};

use crate::harness::{Case, Severity};
use crate::support::{seconds, timed};

#[tokio::test(flavor = "multi_thread")]
async fn c1_crash_by_signal() {
    let case = Case::begin(
        "C1",
        Severity::SelfDos,
        "ctypes.string_at(0); os.abort()",
        "a crash that names its signal; the next session is well",
    )
    .await;
    let mut sessions = Vec::new();
    for (code, number, name) in [
        ("import ctypes; ctypes.string_at(0)", 11, "SIGSEGV"),
        ("import os; os.abort()", 6, "SIGABRT"),
    ] {
        let control = case.control(code).await;
        assert_eq!(control.signal, Some(number), "{control:?}");
        let session = case.session().await;
        let outcome = case.fails(&session, code).await;
        let name = name.to_owned();
        assert_eq!(outcome.cause, Cause::Signal { number, name }, "{outcome:?}");
        assert_eq!(outcome.state, Fate::Lost);
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c3_exits() {
    let case = Case::begin(
        "C3",
        Severity::SelfDos,
        "sys.exit; SystemExit in a thread; os._exit",
        "sys.exit ends the cell alone; os._exit loses the session, also with code 0",
    )
    .await;
    let session = case.session().await;
    let outcome = case.fails(&session, "import sys\nx = 1\nsys.exit(3)").await;
    assert_eq!(outcome.cause, Cause::Exit { code: 3 });
    assert_eq!(outcome.state, Fate::Kept);
    let thread = "import threading\ndef leave(): raise SystemExit(4)\nt = threading.Thread(target=leave); t.start(); t.join()\nprint(x)";
    assert_eq!(case.printed(&session, thread).await, "1\n");
    let outcome = case.fails(&session, "import os; os._exit(0)").await;
    assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    assert_eq!(outcome.cause, Cause::Exit { code: 0 });
    assert_eq!(outcome.state, Fate::Lost);
    let next = case.run(&session, "1").await;
    assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c2a_recursion_in_c() {
    let case = Case::begin(
        "C2a",
        Severity::SelfDos,
        "a raised recursion limit, and __add__ that calls itself",
        "a crash that names SIGSEGV, or RecursionError where Python still notices",
    )
    .await;
    let code = r"
import sys
sys.setrecursionlimit(10**9)
class Endless:
    def __add__(self, other): return self + other
Endless() + 1
";
    let control = case.control(code).await;
    let session = case.session().await;
    let outcome = case.fails(&session, code).await;
    if control.signal.is_some() {
        let (number, name) = (11, "SIGSEGV".to_owned());
        assert_eq!(outcome.cause, Cause::Signal { number, name }, "{outcome:?}");
        assert_eq!(outcome.state, Fate::Lost);
    } else {
        assert!(control.stderr.contains("RecursionError"), "{control:?}");
        assert_eq!(outcome.exception.unwrap().type_name, "RecursionError");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_c2b_recursion_in_python() {
    let case = Case::begin(
        "C2b",
        Severity::SelfDos,
        "a raised recursion limit, and a function that calls itself",
        "bounded by memory and time: an exception, or an end that names memory, time or SIGSEGV, as the version of Python has it",
    )
    .await;
    let session = case
        .session_with(Limits {
            memory_bytes: 64 << 20,
            grace: seconds(0.5),
            ..Limits::default()
        })
        .await;
    let watch = case.watch_sibling();
    let code = r"
import sys
sys.setrecursionlimit(10**9)
def endless(): endless()
endless()
";
    let outcome = case.fails(&session, timed(code, seconds(1.0))).await;
    if let Some(exception) = outcome.exception {
        // The second is how 3.12 tells that it found no memory.
        let errors = ["MemoryError", "SystemError"];
        // Where memory lasts longer than the time, it is interrupted.
        let interrupted =
            outcome.status == Status::Timeout && exception.type_name == "KeyboardInterrupt";
        assert!(
            interrupted || errors.contains(&exception.type_name.as_str()),
            "{exception:?}"
        );
    } else {
        let limits = [
            Cause::Memory {
                limit_bytes: 64 << 20,
            },
            Cause::WallTime { limit_ms: 1000 },
            signal(11, "SIGSEGV"),
        ];
        assert!(limits.contains(&outcome.cause), "{:?}", outcome.cause);
    }
    watch.finish().await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_bad_bytecode() {
    let case = Case::begin(
        "C4",
        Severity::SelfDos,
        "code.replace with bytecode that no compiler makes",
        "a crash that names SIGSEGV; the session is lost",
    )
    .await;
    // LOAD_CONST far behind the end of the constants.
    let code = r"
import opcode
def broken(): pass
load = bytes([opcode.opmap['EXTENDED_ARG'], 255] * 2 + [opcode.opmap['LOAD_CONST'], 255])
broken.__code__ = broken.__code__.replace(co_code=load * 50, co_consts=())
broken()
";
    let control = case.control(code).await;
    assert_eq!(control.signal, Some(11), "{control:?}");
    let session = case.session().await;
    let outcome = case.fails(&session, code).await;
    let (number, name) = (11, "SIGSEGV".to_owned());
    assert_eq!(outcome.cause, Cause::Signal { number, name }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Lost);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c6a_other_numbers() {
    let case = Case::begin(
        "C6a",
        Severity::Integrity,
        "ctypes makes the number 200 a 201, in memory that came from the template",
        "199 + 1 is 201 in this session, and 200 in all others, also in those that start later",
    )
    .await;
    let session = case.session().await;
    let before = case.session().await;
    let code = r"
import ctypes
ctypes.c_uint32.from_address(id(200) + 24).value = 201
";
    case.printed(&session, code).await;
    let sum = "a = 199\nprint(a + 1)";
    assert_eq!(case.printed(&session, sum).await, "201\n");
    assert_eq!(case.printed(&before, sum).await, "200\n");
    let after = case.session().await;
    assert_eq!(case.printed(&after, sum).await, "200\n");
    case.end([session, before, after]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c6b_broken_driver() {
    let case = Case::begin(
        "C6b",
        Severity::Integrity,
        "overwrite the driver: its state, its modules, its objects in memory",
        "the session is lost and says how, or continues; no success that was none, no other session notices",
    )
    .await;
    let limits = Limits {
        grace: seconds(0.2),
        ..Limits::default()
    };
    let mut sessions = Vec::new();
    for (code, lost) in [
        // It believes to be a child of itself, which ends at the end of the cell.
        ("STATE.pid = 1", Cause::Exit { code: 0 }),
        // Its report goes to the output, from which no request can come.
        ("STATE.control = 1", Cause::Exit { code: 72 }),
        ("ctypes.memset(id(wire.send), 0, 64)", signal(11, "SIGSEGV")),
        ("ctypes.memset(id(STATE), 255, 64)", signal(11, "SIGSEGV")),
    ] {
        let session = case.session_with(limits.clone()).await;
        let code = format!(
            "import ctypes\nfrom belljar_guest import wire\nfrom belljar_guest.state import STATE\n{code}"
        );
        let outcome = case.fails(&session, timed(&code, seconds(0.4))).await;
        assert_eq!(outcome.cause, lost, "{code}: {outcome:?}");
        assert_eq!(outcome.state, Fate::Lost);
        sessions.push(session);
    }
    // Without any of its modules' names the driver can't continue.
    let session = case.session_with(limits).await;
    let code = r"
import sys
for name in list(sys.modules):
    if name.startswith('belljar_guest'):
        vars(sys.modules[name]).clear()
";
    let outcome = case.fails(&session, timed(code, seconds(0.4))).await;
    assert_eq!(outcome.state, Fate::Lost, "{outcome:?}");
    sessions.push(session);
    case.end(sessions).await;
}

fn signal(number: i32, name: &str) -> Cause {
    let name = name.to_owned();
    Cause::Signal { number, name }
}

/// An attack on the interpreter's parts, after which the driver still answers truly.
async fn vandal(id: &'static str, attack: &'static str, code: &str) {
    let expectation = "the cell breaks itself alone; the next ones run, and their results are true";
    let case = Case::begin(id, Severity::SelfDos, attack, expectation).await;
    let session = case.session().await;
    let outcome = case.outcome(&session, timed(code, seconds(5.0))).await;
    assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    let outcome = case.outcome(&session, "answer = 6 * 7").await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(outcome.changes.added.len(), 1, "{outcome:?}");
    let outcome = case.outcome(&session, "answer").await;
    assert_eq!(outcome.displays[0].text(), Some("42"), "{outcome:?}");
    let outcome = case.fails(&session, "answer.missing").await;
    assert_eq!(outcome.cause, Cause::Exception, "{outcome:?}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7a_no_builtins() {
    let code = r"
import builtins
for name in list(vars(builtins)):
    if name not in ('__import__', '__build_class__'):
        delattr(builtins, name)
";
    vandal("C7a", "delete the builtins", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7b_no_modules() {
    let code = r"
import builtins, importlib, os, sys
os.read = os.write = os._exit = os.getpid = None
builtins.__import__ = None
sys.meta_path.clear()
sys.path.clear()
sys.stdout = sys.stderr = sys.excepthook = sys.displayhook = None
sys.modules.clear()
";
    vandal("C7b", "clear sys.modules, paths and hooks", code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7c_tricks_with_the_collector() {
    let code = r"
import gc
gc.unfreeze()
gc.set_threshold(1)
gc.callbacks.append(lambda *_: 1 / 0)
class Risen:
    def __del__(self):
        risen.append(Risen())
        raise SystemExit
risen = []
Risen()
for _ in range(100):
    ring = []
    ring.append(ring)
for one in gc.get_objects():
    if type(one) is list and one is not risen and len(one) < 3:
        one.extend(one)
";
    vandal(
        "C7c",
        "the garbage collector: callbacks that raise, objects that rise again, lists of others found and changed",
        code,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7d_tracing() {
    // What the driver does after a cell, beside what it does around it.
    let code = r"
import sys, threading
def trace(frame, event, argument):
    code = frame.f_code
    if 'belljar_guest' in code.co_filename and code.co_name in ('run', '_ending', 'perform', 'send'):
        raise SystemExit
    return trace
threading.settrace(trace)
threading.setprofile(trace)
sys.setrecursionlimit(60)
sys.setswitchinterval(1e6)
sys.setprofile(trace)
sys.settrace(trace)
";
    let attack = "settrace and setprofile with functions that raise within the driver";
    vandal("C7d", attack, code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c7e_monitoring() {
    let case = Case::begin(
        "C7e",
        Severity::SelfDos,
        "sys.monitoring (since Python 3.12) with a function that raises within the driver",
        "the session is lost and says so; before 3.12 an AttributeError",
    )
    .await;
    let session = case.session().await;
    let code = r"
import sys
def started(code, offset):
    if 'belljar_guest' in code.co_filename and code.co_name in ('_ending', 'perform', 'send'):
        raise SystemExit
sys.monitoring.use_tool_id(3, 'hostile')
sys.monitoring.register_callback(3, sys.monitoring.events.PY_START, started)
sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
";
    let outcome = case.fails(&session, code).await;
    if let Some(exception) = outcome.exception {
        assert_eq!(exception.type_name, "AttributeError");
    } else {
        assert_eq!(outcome.cause, Cause::Exit { code: 72 }, "{outcome:?}");
        assert_eq!(outcome.state, Fate::Lost);
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_another_program() {
    let case = Case::begin(
        "C8",
        Severity::Integrity,
        "os.execv over the driver: a program that ends, one that stays, one that answers in its place",
        "the session is lost: by the exit code, by the closed channel, by the answer of a stranger",
    )
    .await;
    let answer = r#"
import os, sys
os.set_inheritable(3, True)
report = b'{"type":"done","cell":2,"nonce":"0","end":"ok"}'
frame = len(report).to_bytes(4, 'little') + bytes(4) + report
os.execv(sys.executable, ['python', '-I', '-c', f'import os; os.write(3, {frame}); os.read(3, 1)'])
"#;
    let ends = Cause::Exit { code: 0 };
    let stays = Cause::Protocol {
        detail: "the channel was closed, as by os.execv or os.close".to_owned(),
    };
    let answers = Cause::Protocol {
        detail: "a report about cell 2 while cell 2 runs".to_owned(),
    };
    let mut sessions = Vec::new();
    for (code, cause) in [
        ("import os; os.execv('/bin/true', ['true'])", ends),
        ("import os; os.execv('/bin/sleep', ['sleep', '999'])", stays),
        (answer, answers),
    ] {
        let session = case.session().await;
        let outcome = case.fails(&session, code).await;
        assert_eq!(outcome.cause, cause, "{code}: {outcome:?}");
        assert_eq!(
            (outcome.status, outcome.state),
            (Status::Crashed, Fate::Lost)
        );
        let next = case.run(&session, "1").await;
        assert!(matches!(next, Err(Error::Ended(_))), "{next:?}");
        sessions.push(session);
    }
    case.end(sessions).await;
}
