//! R: namespaces of a session.

use belljar_sandbox::protocol::Fate;
use belljar_sandbox::{Cell, Error, Limits, Session};

use crate::harness::{Case, Severity, block_on};
use crate::support::{Stopwatch, seconds, without_checkpoints};

fn within(namespace: &str, code: &str) -> Cell {
    Cell {
        namespace: Some(namespace.to_owned()),
        ..Cell::from(code)
    }
}

async fn with_namespaces(case: &Case) -> Session {
    let session = case.session().await;
    for name in ["a", "b"] {
        session.create_namespace(name, None).await.unwrap();
        let code = format!("x = '{name}'");
        case.printed(&session, within(name, &code)).await;
    }
    session
}

async fn listed(session: &Session) -> Vec<String> {
    let list = session.namespaces().await.unwrap();
    list.into_iter().map(|one| one.name).collect()
}

/// The driver's table, as code finds it.
const TABLE: &str = "import sys
frame = sys._getframe()
while not hasattr(frame.f_locals.get('self'), 'namespaces'): frame = frame.f_back
table = frame.f_locals['self'].namespaces
";

#[test]
fn r1_a_lie_about_namespaces() {
    block_on(lie_about_namespaces());
}

async fn lie_about_namespaces() {
    let case = Case::begin(
        "R1",
        Severity::Integrity,
        "the driver's table of namespaces with other names and a thousand more of them; names of a snapshot in a namespace that the session has not",
        "the list of the host stays as it was; the snapshot is refused, and the session ends",
    )
    .await;
    let session = with_namespaces(&case).await;
    let lie = format!(
        "{TABLE}for n in range(1000): table.add(f'more{{n}}', '/')\ntable.all['a'].name = '__main__'\ntable.all['forged'] = table.all.pop('b')"
    );
    case.printed(&session, lie.as_str()).await;
    assert_eq!(listed(&session).await, ["main", "a", "b"]);
    let refused = session.run(within("more1", "1")).await;
    assert!(matches!(refused, Err(Error::NoNamespace(_))));
    // One that the table lacks is a new one.
    let code = "print('x' in globals())";
    assert_eq!(case.printed(&session, within("b", code)).await, "False\n");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("snapshot");
    let refused = session.snapshot(&path).await.unwrap_err().to_string();
    assert!(refused.contains("names of another namespace"), "{refused}");
    assert!(!path.exists());
    assert!(matches!(session.run("1").await, Err(Error::Ended(_))));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_a_broken_table() {
    let case = Case::begin(
        "R2",
        Severity::SelfDos,
        "the driver's table of namespaces emptied, replaced or broken in six ways",
        "the next cell runs, or its session alone ends; the host's list is that of before",
    )
    .await;
    let mut sessions = Vec::new();
    for code in [
        "table.all.clear()",
        "table.all = None",
        "table.all['a'] = table.all['main'] = 7",
        "table.current = None",
        "type(table).enter = type(table).clear = None",
        "table._shell = None\ntype(get_ipython()).__setattr__ = None",
    ] {
        let session = with_namespaces(&case).await;
        let mangle = format!("{TABLE}{code}");
        let outcome = session.run(mangle.as_str()).await.unwrap();
        assert!(
            outcome.is_success() || outcome.state == Fate::Lost,
            "{code}"
        );
        if outcome.is_success() {
            assert_eq!(listed(&session).await, ["main", "a", "b"], "{code}");
            match session.run(within("a", "print(6 * 7)")).await {
                Ok(outcome) => assert!(
                    outcome.state == Fate::Lost || outcome.stdout.text == "42\n",
                    "{code}: {outcome:#?}"
                ),
                Err(error) => assert!(matches!(error, Error::Ended(_)), "{code}: {error}"),
            }
        }
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_a_namespace_spoils_itself() {
    let case = Case::begin(
        "R3",
        Severity::Integrity,
        "code of one namespace that clears its names, replaces its `__builtins__` and `__main__`, and changes what assigning to `get_ipython()` does",
        "the next cell of every namespace sees its own names, in its own `__main__`",
    )
    .await;
    let session = with_namespaces(&case).await;
    let check = "import sys\nprint(globals().get('x'), sys.modules['__main__'].__dict__ is globals(), get_ipython().user_ns is globals())";
    for (code, left) in [
        ("import sys; sys.modules['__main__'] = None", "a"),
        (
            "shell = type(get_ipython())\nshell.user_ns = property(lambda self: 1 / 0)\ndel shell.user_ns\nshell.__setattr__ = lambda *_: 1 / 0",
            "a",
        ),
        ("__name__ = 'x'; __builtins__ = {}", "a"),
        ("globals().clear()", "None"),
    ] {
        case.outcome(&session, within("a", code)).await;
        assert_eq!(
            case.printed(&session, within("b", check)).await,
            "b True True\n",
            "{code}"
        );
        assert_eq!(case.printed(&session, check).await, "None True True\n");
        assert_eq!(
            case.printed(&session, within("a", check)).await,
            format!("{left} True True\n"),
            "{code}"
        );
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_r4_destructors_that_never_end() {
    let case = Case::begin(
        "R4",
        Severity::SelfDos,
        "a namespace is restarted whose values have destructors that never end: some that an exception ends, and one that swallows every exception",
        "the first are ended after seconds, and the session continues; the other one ends its session within 15 seconds",
    )
    .await;
    let limits = without_checkpoints(Limits::default());
    let session = case.session_of(limits.clone()).await;
    session.create_namespace("a", None).await.unwrap();
    let code = "class D:\n    def __del__(self):\n        while True: pass\nlot = [D() for _ in range(8)]; y = 1";
    case.printed(&session, within("a", code)).await;
    session.namespace("a").restart().await.unwrap();
    assert!(session.namespace("a").manifest().await.unwrap().is_empty());
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    let other = case.session_of(limits).await;
    other.create_namespace("a", None).await.unwrap();
    let code = "import time\nclass D:\n    def __del__(self, sleep=time.sleep):\n        while True:\n            try: sleep(60)\n            except BaseException: pass\nd = D()";
    case.printed(&other, within("a", code)).await;
    let watch = Stopwatch::start();
    let error = other.namespace("a").remove().await.unwrap_err();
    assert!(matches!(error, Error::Unresponsive), "{error:?}");
    assert!(watch.elapsed() < seconds(15.0));
    assert!(matches!(other.run("1").await, Err(Error::Ended(_))));
    case.end([session, other]).await;
}
