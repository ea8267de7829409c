//! P: environment variables and secrets.

use std::collections::BTreeMap;

use belljar_sandbox::protocol::{Event, ToolStub};
use belljar_sandbox::{
    Cell, Checkpoints, Command, SecretGrant, Secrets, Session, SessionOptions, VariableError,
    Variables,
};

use crate::harness::{Case, Severity, block_on};

const SECRET: &str = "s3cr3t-9f86d081884c7d65";

/// As code would print it to make sure that it has it: the host does not look for it.
const REVERSED: &str = "56d7c488180d68f9-t3rc3s";

fn options() -> SessionOptions {
    SessionOptions {
        checkpoints: Checkpoints::Off,
        secrets: Secrets::new(BTreeMap::from([("TOKEN".to_owned(), SECRET.to_owned())])).unwrap(),
        ..SessionOptions::default()
    }
}

/// Everything that a cell sends, as JSON: events one by one, then texts of all events of a stream in a row.
async fn all_of(session: &Session, cell: impl Into<Cell>) -> String {
    let mut run = session.run(cell);
    let (mut all, mut streams) = (String::new(), [String::new(), String::new()]);
    while let Some(event) = run.next().await {
        let event = event.unwrap();
        all += &serde_json::to_string(&event).unwrap();
        match event {
            Event::Output { stream, text } => streams[stream as usize] += &text,
            Event::Outcome(outcome) => {
                for display in &outcome.displays {
                    for part in &display.parts {
                        all += &String::from_utf8_lossy(&part.data);
                    }
                }
                for file in [&outcome.stdout.file, &outcome.stderr.file]
                    .into_iter()
                    .flatten()
                {
                    all += &String::from_utf8_lossy(&std::fs::read(file).unwrap());
                }
                all += &outcome.transcript;
            }
            Event::Called { call, .. } => {
                session
                    .answer(call, Ok(serde_json::json!(1).into()))
                    .await
                    .unwrap();
            }
            _ => {}
        }
    }
    all + &streams.join("|")
}

async fn is_scrubbed(session: &Session, code: &str) {
    let all = all_of(session, code).await;
    assert!(!all.contains(SECRET), "{code}\n{all}");
    assert!(all.contains("[secret TOKEN]"), "{code}\n{all}");
}

async fn output(session: &Session, command: Command) -> String {
    let command = session.spawn(command).await.unwrap();
    command.wait().await;
    let part = command.output(0, usize::MAX);
    let bytes: Vec<u8> = part.chunks.into_iter().flat_map(|one| one.bytes).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn python(code: &str) -> Command {
    Command::new(["python", "-c", code])
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_a_secret_cut_into_pieces() {
    let case = Case::begin(
        "P1",
        Severity::Exfil,
        "a secret printed byte by byte, half on each stream, around a display, and over itself with a carriage return",
        "replaced in live output, the outcome, the transcript and the file with the full text",
    )
    .await;
    let session = case.session_of(options()).await;
    is_scrubbed(&session, "import os, sys, time\nt = os.environ['TOKEN']\nfor c in t:\n    os.write(1, c.encode()); time.sleep(0.03)").await;
    is_scrubbed(
        &session,
        "print(t[:9], end='', flush=True); display(1); time.sleep(0.1); print(t[9:])",
    )
    .await;
    let halves =
        "sys.stdout.write(t[:9]); sys.stdout.flush(); sys.stderr.write(t[9:]); sys.stderr.flush()";
    let all = all_of(&session, halves).await;
    assert!(!all.contains(SECRET), "{all}");
    is_scrubbed(&session, "print('x' * 30 + '\\r' + t)").await;
    is_scrubbed(&session, "for _ in range(200000): print(t)").await;
    is_scrubbed(&session, "os.write(1, t[:-1].encode() + t.encode())").await;
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_a_secret_in_what_a_cell_reports() {
    let case = Case::begin(
        "P2",
        Severity::Exfil,
        "a secret in an exception, its traceback, names, values, displays, metadata, file names and a forged frame",
        "replaced everywhere, also where the frame escapes each character",
    )
    .await;
    let session = case.session_of(options()).await;
    is_scrubbed(
        &session,
        "import os\nt = os.environ['TOKEN']\nraise ValueError('no ' + t)",
    )
    .await;
    is_scrubbed(&session, "raise type(t, (Exception,), {})(1)").await;
    is_scrubbed(&session, "t").await;
    is_scrubbed(&session, "class Rich:\n    def _repr_mimebundle_(self, **_): return {'text/html': '<b>' + t, 'application/json': {'k': t}}, {'m': t}\ndisplay(Rich())").await;
    is_scrubbed(&session, "open(t, 'w').close()").await;
    is_scrubbed(&session, "globals()['name_' + t] = 1").await;
    let forged = "import json, struct\n\
        from belljar_guest.state import STATE\n\
        escaped = ''.join('\\\\u%04x' % ord(c) for c in t)\n\
        head = '{\"type\":\"done\",\"cell\":%d,\"nonce\":\"%s\",\"end\":\"ok\",\"run_us\":1,\"notes\":[\"%s\"]}' % (STATE.cell, STATE.nonce, escaped)\n\
        os.write(3, struct.pack('<II', len(head), 0) + head.encode())";
    let all = all_of(&session, forged).await;
    assert!(
        !all.contains(SECRET) && all.contains("[secret TOKEN]"),
        "{all}"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_a_secret_in_the_output_of_a_command() {
    let case = Case::begin(
        "P3",
        Severity::Exfil,
        "env, a secret written byte by byte by a command, and one on a terminal",
        "replaced; the command has the value",
    )
    .await;
    let session = case.session_of(options()).await;
    let env = output(&session, Command::new(["env"])).await;
    assert!(
        env.contains("TOKEN=[secret TOKEN]") && !env.contains(SECRET),
        "{env}"
    );
    let slow = "import os, time\nfor c in os.environ['TOKEN']:\n    os.write(1, c.encode()); time.sleep(0.02)";
    assert_eq!(output(&session, python(slow)).await, "[secret TOKEN]");
    let terminal = Command {
        terminal: Some(belljar_sandbox::TerminalSize::default()),
        ..Command::new(["env"])
    };
    let shown = output(&session, terminal).await;
    assert!(
        shown.contains("[secret TOKEN]") && !shown.contains(SECRET),
        "{shown}"
    );
    let reversed = output(
        &session,
        python("import os; print(os.environ['TOKEN'][::-1])"),
    )
    .await;
    assert_eq!(reversed.trim(), REVERSED);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_secret_as_argument_of_a_tool() {
    let case = Case::begin(
        "P4",
        Severity::Exfil,
        "a tool called with a secret, which approvals and the journal would show",
        "the arguments have the mark instead",
    )
    .await;
    let tool = ToolStub {
        name: "note".into(),
        description: "Notes a text.".into(),
        parameters: serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        result: None,
    };
    let session = case
        .session_of(SessionOptions {
            tools: vec![tool],
            ..options()
        })
        .await;
    let cell = Cell {
        answers: true,
        ..Cell::from("import os, tools; tools.note(text='with ' + os.environ['TOKEN'])")
    };
    let all = all_of(&session, cell).await;
    assert!(
        all.contains("with [secret TOKEN]") && !all.contains(SECRET),
        "{all}"
    );
    case.end([session]).await;
}

/// `PATTERN` matches the secret and not itself.
const SEARCH_MEMORY: &str = "
import re
wanted, found = re.compile(b'PATTERN'), 0
for line in list(open('/proc/self/maps')):
    span, mode = line.split()[:2]
    start, end = (int(x, 16) for x in span.split('-'))
    if mode[0] != 'r' or line.rstrip().endswith(']') and '[heap]' not in line: continue
    with open('/proc/self/mem', 'rb', 0) as memory:
        try:
            memory.seek(start)
            found += len(wanted.findall(memory.read(end - start)))
        except OSError: pass
print('found', found > 0)
";

#[tokio::test(flavor = "multi_thread")]
async fn p5_a_secret_of_another_session_of_the_template() {
    let case = Case::begin(
        "P5",
        Severity::Lateral,
        "all readable memory of a session searched for the secret of an earlier one of the same template",
        "not there; the session with the secret finds it",
    )
    .await;
    let pattern = SECRET.chars().flat_map(|one| ['[', one, ']']);
    let pattern: String = pattern.collect();
    let code = SEARCH_MEMORY.replace("PATTERN", &pattern);
    let owner = case.session_of(options()).await;
    assert_eq!(case.printed(&owner, &code).await, "found True\n");
    let later = case.session().await;
    assert_eq!(case.printed(&later, &code).await, "found False\n");
    case.end([owner, later]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_a_secret_of_the_parent_read_by_a_fork() {
    let case = Case::begin(
        "P6",
        Severity::Lateral,
        "a fork without a grant reads its environment, that of its parent and of its parent's commands in /proc",
        "none of them has it for the fork; with a grant it is there",
    )
    .await;
    let session = case.session_of(options()).await;
    let kept = session.spawn(Command::new(["sleep", "100"])).await.unwrap();
    let code = "
import os, subprocess
seen = [os.environ.get('TOKEN'), os.getenv('TOKEN'), subprocess.run('echo $TOKEN', shell=True, capture_output=True, text=True).stdout.strip()]
found = 0
for pid in [*filter(str.isdigit, os.listdir('/proc')), 'PID']:
    try: found += b'TOKEN=' in open(f'/proc/{pid}/environ', 'rb').read()
    except OSError as error: last = type(error).__name__
print([(s or '')[::-1] for s in seen], found, last)";
    let code = &code.replace("PID", &kept.pid().to_string());
    let fork = session.fork(1).await.unwrap().remove(0);
    let shown = case.printed(&fork, code).await;
    assert!(shown.starts_with("['', '', ''] 0 "), "{shown}");
    // A command of the same session can read it there.
    let read = "print(b'TOKEN=' in open('/proc/PID/environ', 'rb').read())";
    let read = read.replace("PID", &kept.pid().to_string());
    assert_eq!(output(&session, python(&read)).await, "True\n");
    let granted = session
        .fork_with(1, SecretGrant::All)
        .await
        .unwrap()
        .remove(0);
    let shown = case.printed(&granted, code).await;
    assert!(
        shown.starts_with(&format!("['{REVERSED}', '{REVERSED}', '{REVERSED}']")),
        "{shown}"
    );
    kept.kill().unwrap();
    drop((fork, granted));
    case.end([session]).await;
}

#[test]
fn p7_a_secret_in_a_snapshot() {
    block_on(snapshot_with_secrets());
}

async fn snapshot_with_secrets() {
    let case = Case::begin(
        "P7",
        Severity::Exfil,
        "variables, a function, an array and the source of a cell that hold a secret, in a snapshot; and a driver that hides them",
        "left out and named; the file has no byte of it; the lying driver's session ends",
    )
    .await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("saved");
    let session = case.session_of(options()).await;
    let code = format!(
        "import os\na = os.environ['TOKEN']\nb = {{'x': [a]}}\nenv = os.environ\nbig = bytearray(100000) + a.encode()\nfine = 1\nc = lambda: '{SECRET}'"
    );
    case.run(&session, code.as_str()).await.unwrap();
    let report = session.snapshot(&file).await.unwrap();
    let lost: Vec<&str> = report
        .names
        .iter()
        .filter(|name| name.why.is_some())
        .map(|name| name.name.as_str())
        .collect();
    for name in ["a", "b", "env", "big", "c"] {
        assert!(lost.contains(&name), "{name}: {:?}", report.names);
    }
    assert!(!lost.contains(&"fine"), "{lost:?}");
    let bytes = std::fs::read(&file).unwrap();
    let has = |bytes: &[u8]| {
        bytes
            .windows(SECRET.len())
            .any(|window| window == SECRET.as_bytes())
    };
    assert!(!has(&bytes));
    let lie = "import belljar_guest.snapshot as s\ns._holds = lambda *_: False";
    case.run(&session, lie).await.unwrap();
    let refused = session.snapshot(&file).await.unwrap_err().to_string();
    assert!(refused.contains("a snapshot with a secret"), "{refused}");
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        assert!(!has(&std::fs::read(entry.unwrap().path()).unwrap()));
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_names_that_load_programs() {
    let case = Case::begin(
        "P8",
        Severity::InternalEsc,
        "variables LD_PRELOAD, PYTHONSTARTUP, BASH_ENV, PATH, A=B, names and values with NUL, 65 names",
        "each is refused with its name, before anything is started",
    )
    .await;
    let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "BASH_ENV",
        "ENV",
        "PATH",
        "HOME",
        "BELLJAR_X",
        "http_proxy",
    ] {
        assert_eq!(
            Variables::new(one(name, "/x")).unwrap_err(),
            VariableError::Reserved(name.into())
        );
        assert_eq!(
            Secrets::new(one(name, "12345678")).unwrap_err(),
            VariableError::Reserved(name.into())
        );
    }
    for name in ["", "A=B", "A\0B", "a b", "1", "é", "A\n"] {
        assert_eq!(
            Variables::new(one(name, "x")).unwrap_err(),
            VariableError::Name(name.into())
        );
    }
    assert_eq!(
        Variables::new(one("A", "a\0b")).unwrap_err(),
        VariableError::Nul("A".into())
    );
    let many = (0..65).map(|n| (format!("A{n}"), String::new())).collect();
    assert_eq!(Variables::new(many).unwrap_err(), VariableError::Count);
    let short = Secrets::new(one("PIN", "1234")).unwrap_err();
    assert!(
        short.to_string().contains("`PIN`") && !short.to_string().contains("1234"),
        "{short}"
    );
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_hostile_environment_of_the_interpreter() {
    let case = Case::begin(
        "P9",
        Severity::SelfDos,
        "os.environ replaced, its class patched to loop and to raise, before a cell with variables of its own",
        "the driver calls none of it: the cell runs, and its variables end with it",
    )
    .await;
    let session = case.session_of(options()).await;
    let hostile = "import os\ndef loop(*a):\n    while True: pass\nreal = os.environ\nclass_ = type(real)\nclass_.__setitem__ = class_.__delitem__ = class_.get = class_.pop = loop\nos.environ = None\nos.putenv = os.unsetenv = loop";
    case.run(&session, hostile).await.unwrap();
    let cell = Cell {
        variables: Variables::new(BTreeMap::from([("ONCE".to_owned(), "1".to_owned())])).unwrap(),
        ..Cell::from("print(real._data[b'ONCE'], flush=True); os.system('echo $ONCE')")
    };
    let outcome = case.run(&session, cell).await.unwrap();
    assert_eq!(outcome.stdout.text, "b'1'\n1\n");
    assert_eq!(
        case.printed(
            &session,
            "print(real._data.get(b'ONCE'), flush=True); os.system('echo -$ONCE')"
        )
        .await,
        "None\n-\n"
    );
    case.end([session]).await;
}
