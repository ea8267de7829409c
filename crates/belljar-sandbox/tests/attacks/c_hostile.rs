//! C: sources, displays and exceptions that are made to hurt whoever reads them.

use belljar_sandbox::Error;
use belljar_sandbox::protocol::{Cause, Fate, Status};

use crate::harness::{Case, Severity};
use crate::support::{Stopwatch, eventually, seconds, timed};

#[tokio::test(flavor = "multi_thread")]
async fn c5a_deep_sources() {
    let case = Case::begin(
        "C5a",
        Severity::SelfDos,
        "sources with 10,000 parentheses, 200,000 signs, 100,000 blocks, 5,000 attributes of attributes",
        "an error of the compiler; nothing ran, and the session lives on",
    )
    .await;
    let session = case.session().await;
    let nested: String = (0..100_000).map(|_| "if 1: ").collect();
    for source in [
        "(".repeat(10_000) + &")".repeat(10_000),
        "-".repeat(200_000) + "1",
        nested + "pass",
        "f'{".repeat(5_000),
        "[".repeat(199) + "x for x in " + &"[".repeat(10_000),
    ] {
        let outcome = case.fails(&session, source.as_str()).await;
        assert_eq!(outcome.state, Fate::Kept, "{source:.20}: {outcome:?}");
        let name = outcome.exception.unwrap().type_name;
        // Which of them depends on the version of Python.
        let errors = [
            "SyntaxError",
            "IndentationError",
            "MemoryError",
            "RecursionError",
        ];
        assert!(errors.contains(&name.as_str()), "{source:.20}: {name}");
    }
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5b_long_sources() {
    let case = Case::begin(
        "C5b",
        Severity::HostDos,
        "a source of 4 MiB, of one byte more, and of 50 MB",
        "the first runs; the others are refused before they are sent; the session lives on",
    )
    .await;
    let session = case.session().await;
    let limit = 4 << 20;
    let head = "x = 1 #";
    let longest = head.to_owned() + &"#".repeat(limit - head.len());
    assert_eq!(longest.len(), limit);
    case.printed(&session, longest.as_str()).await;
    for bytes in [limit + 1, 50_000_000] {
        let refused = case.run(&session, "#".repeat(bytes)).await;
        let expected = Error::CellTooLarge { bytes, limit };
        assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    }
    assert_eq!(case.printed(&session, "print(x)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5c_odd_characters() {
    let case = Case::begin(
        "C5c",
        Severity::SelfDos,
        "sources with NUL, a byte order mark, control and bidirectional characters, odd coding cookies; bad UTF-8 and lone surrogates for exec",
        "as Python has it, typed; the session lives on and its reports stay readable",
    )
    .await;
    let session = case.session().await;
    for (source, status, error) in [
        ("x = 1\0", Status::Failure, "SyntaxError"),
        ("\0", Status::Failure, "SyntaxError"),
        ("'\u{202e}unfinished", Status::Failure, "SyntaxError"),
        ("x\u{200b} = 1", Status::Failure, "SyntaxError"),
        ("x = 1\u{1b}[2J", Status::Failure, "SyntaxError"),
        ("x = 1\r\ny = 2\ry = 3", Status::Success, ""),
        // The cookie of a text that is Unicode already has no say.
        ("# -*- coding: nonsense -*-\nx = 1", Status::Success, ""),
        (
            "# -*- coding: utf-7 -*-\nx = '+AGE-'\nassert len(x) == 5",
            Status::Success,
            "",
        ),
        (
            "exec(b'# coding: rot13\\nk = 1')",
            Status::Failure,
            "SyntaxError",
        ),
        (
            "exec(b'# coding: nonsense\\nk = 1')",
            Status::Failure,
            "SyntaxError",
        ),
        ("exec(b'x = \\xff')", Status::Failure, "SyntaxError"),
        (
            "exec('x = \"\\ud800\"')",
            Status::Failure,
            "UnicodeEncodeError",
        ),
        ("raise ValueError('\\ud800')", Status::Failure, "ValueError"),
        ("globals()['\\ud800'] = '\\udfff'", Status::Success, ""),
        ("'\\ud800'", Status::Success, ""),
    ] {
        let outcome = case.outcome(&session, source).await;
        assert_eq!(outcome.status, status, "{source:?}: {outcome:?}");
        assert_eq!(outcome.state, Fate::Kept);
        let name = outcome.exception.map(|exception| exception.type_name);
        let name = name.as_deref().unwrap_or_default();
        // Before 3.12 a NUL was a ValueError.
        let nul = source.contains('\0') && name == "ValueError";
        assert!(name == error || nul, "{source:?}: {name}");
    }
    assert_eq!(case.printed(&session, "print(y)").await, "3\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_c9a_endless_repr() {
    let case = Case::begin(
        "C9a",
        Severity::SelfDos,
        "a __repr__ that never returns",
        "given up after 3 seconds, with a note; with less time left, a timeout; the session lives on",
    )
    .await;
    let session = case.session().await;
    let code = r"
class Endless:
    def __repr__(self):
        while True: pass
Endless()
";
    let outcome = case.outcome(&session, code).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(
        outcome.displays[0].text(),
        Some("<__main__.Endless object: its repr took longer than 3 s>")
    );
    assert_eq!(outcome.notes.len(), 1, "{outcome:?}");
    let outcome = case.fails(&session, timed("Endless()", seconds(0.3))).await;
    let limit_ms = 300;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
    assert_eq!(outcome.state, Fate::Kept);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_c9b_huge_repr() {
    let case = Case::begin(
        "C9b",
        Severity::HostDos,
        "a __repr__ of 1 GB; one of text that grows by escaping",
        "the host gets at most 64 KiB of each, with a note of what is missing",
    )
    .await;
    let session = case.session().await;
    // A repr has 3 seconds, on slow machines too.
    let gigabyte = format!("'x' * {}", (1 << 30) / Stopwatch::slowness());
    for size in [
        gigabyte.as_str(),
        "'\\ud800' * (1 << 24)",
        "'\\U0001F600' * (1 << 24)",
    ] {
        let code = format!("class Huge:\n    def __repr__(self): return {size}\nHuge()");
        let outcome = case.outcome(&session, code).await;
        assert!(outcome.is_success(), "{outcome:?}");
        let shown = &outcome.displays[0].get("text/plain").unwrap().data;
        assert!(
            (16 << 10..=64 << 10).contains(&shown.len()),
            "{}",
            shown.len()
        );
        assert!(
            outcome.notes[0].starts_with("the middle of a text of"),
            "{:?}",
            outcome.notes
        );
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c9c_repr_that_raises() {
    let case = Case::begin(
        "C9c",
        Severity::SelfDos,
        "a __repr__ that raises, exits, interrupts, recurses, or returns no text",
        "the display says what happened; the cell and the session continue",
    )
    .await;
    let session = case.session().await;
    for (body, error) in [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise MemoryError", "MemoryError"),
        ("return repr(self)", "RecursionError"),
        ("return 5", "TypeError"),
    ] {
        let code = format!("class Hostile:\n    def __repr__(self): {body}\nHostile()");
        let outcome = case.outcome(&session, code).await;
        assert!(outcome.is_success(), "{outcome:?}");
        assert_eq!(
            outcome.displays[0].text().unwrap(),
            format!("<__main__.Hostile object: its repr raised {error}>")
        );
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c9d_repr_that_forks() {
    let case = Case::begin(
        "C9d",
        Severity::Integrity,
        "a __repr__ that forks",
        "one display, by the session; the child has no say and ends with the cell",
    )
    .await;
    let session = case.session().await;
    let code = r"
import os
class Forking:
    def __repr__(self):
        return 'the child' if os.fork() == 0 else 'the session'
Forking()
";
    let outcome = case.outcome(&session, code).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(outcome.displays.len(), 1, "{outcome:?}");
    assert_eq!(outcome.displays[0].text(), Some("the session"));
    eventually("the end of the child", || case.members(&session).len() == 1).await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10a_deep_exceptions() {
    let case = Case::begin(
        "C10a",
        Severity::SelfDos,
        "exceptions that hang together 100,000 deep, wide, or in a ring; a traceback of 10,000 frames",
        "told in at most 64 KiB, with a note of what is left out; never a hang",
    )
    .await;
    let session = case.session().await;
    let deep = r"
error = ValueError('innermost')
for _ in range(100_000):
    try: error = ExceptionGroup('outer', [error])
    except NameError: error, error.__cause__ = ValueError('outer'), error
raise error
";
    let chain = r"
error = ValueError('innermost')
for _ in range(100_000):
    outer = ValueError('outer')
    outer.__context__ = error
    error = outer
raise error
";
    let wide = r"
try: raise ExceptionGroup('wide', [ValueError(number) for number in range(100_000)])
except NameError: raise ValueError('wide')
";
    let ring = r"
first, second = ValueError('first'), ValueError('second')
first.__cause__, second.__cause__ = second, first
raise first
";
    let frames = r"
import sys
sys.setrecursionlimit(20_000)
def descend(depth):
    if depth: descend(depth - 1)
    raise ValueError('bottom')
descend(10_000)
";
    for (code, words) in [
        (deep, "left out"),
        (chain, "left out"),
        (wide, "wide"),
        (ring, "first"),
        (frames, "bottom"),
    ] {
        let outcome = case.fails(&session, timed(code, seconds(10.0))).await;
        assert_eq!(outcome.cause, Cause::Exception, "{code}: {outcome:?}");
        let traceback = outcome.exception.unwrap().traceback;
        assert!(traceback.contains(words), "{code}: {traceback:.2000}");
        assert!(traceback.len() <= 64 << 10, "{}", traceback.len());
    }
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10b_exceptions_that_do_not_tell() {
    let case = Case::begin(
        "C10b",
        Severity::SelfDos,
        "exceptions whose __str__ never returns, raises, is huge or no text, or whose class lies about its name",
        "the outcome says so in its own words, within bounds; the session lives on",
    )
    .await;
    let session = case.session().await;
    for (body, value) in [
        (
            "def __str__(self):\n        while True: pass",
            "<Hostile: its str took longer than 1 s>",
        ),
        (
            "def __str__(self): raise Hostile",
            "<Hostile: its str raised Hostile>",
        ),
        (
            "def __str__(self): raise SystemExit",
            "<Hostile: its str raised SystemExit>",
        ),
        (
            "def __str__(self): return str(self)",
            "<Hostile: its str raised RecursionError>",
        ),
        (
            "def __str__(self): return 5",
            "<Hostile: its str raised TypeError>",
        ),
    ] {
        let code = format!("class Hostile(Exception):\n    {body}\nraise Hostile");
        let outcome = case.fails(&session, code).await;
        assert_eq!(outcome.cause, Cause::Exception, "{outcome:?}");
        let exception = outcome.exception.unwrap();
        assert_eq!(exception.type_name, "Hostile");
        assert_eq!(exception.value, value);
        assert_eq!(
            exception.line,
            Some(if value.contains("1 s") { 4 } else { 3 })
        );
    }
    let huge = "class Hostile(Exception): __str__ = lambda self: 'x' * (1 << 24)\nraise Hostile";
    let exception = case.fails(&session, huge).await.exception.unwrap();
    assert!(
        exception.value.len() <= 16 << 10,
        "{}",
        exception.value.len()
    );
    let nameless = r"
class Meta(type):
    def __getattribute__(self, name): raise SystemExit
class Nameless(Exception, metaclass=Meta):
    pass
Nameless.__class__
";
    let outcome = case.outcome(&session, nameless).await;
    assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    let outcome = case.fails(&session, "raise Nameless('x')").await;
    assert_eq!(outcome.exception.unwrap().type_name, "Nameless");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10c_false_tracebacks() {
    let case = Case::begin(
        "C10c",
        Severity::HostLeak,
        "a traceback whose frames claim to be of a host file and of an earlier cell",
        "nothing of the host's file is shown, long names are cut, the line told is one of the cell itself",
    )
    .await;
    let session = case.session().await;
    let file = case.canaries.file.display();
    let code = format!(
        r#"
import linecache
for name in ({file:?}.strip('"'), '<cell 1>', '<cell 99>'):
    code = compile('raise ValueError("false")', name, 'exec')
    code = code.replace(co_name='x' * 1_000_000)
    try:
        exec(code)
    except ValueError as error:
        kept = error
    linecache.getline(name, 1)
raise kept
"#,
    );
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.cause, Cause::Exception, "{outcome:?}");
    let exception = outcome.exception.unwrap();
    assert_eq!(
        (exception.type_name.as_str(), exception.line),
        ("ValueError", Some(7))
    );
    assert!(exception.traceback.len() <= 64 << 10);
    // The oracle knows what the file holds.
    let first = format!(
        "exec(compile('raise ValueError', {:?}, 'exec'))",
        case.canaries.file
    );
    let outcome = case.fails(&session, first).await;
    let traceback = outcome.exception.unwrap().traceback;
    assert!(traceback.contains("secret.txt"), "{traceback}");
    case.end([session]).await;
}
