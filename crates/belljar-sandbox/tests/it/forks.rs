//! Forks of sessions: copies that go their own way.

use std::collections::BTreeSet;
use std::path::Path;

use belljar_sandbox::protocol::{CallId, Cause, Event, Fate, Status};
use belljar_sandbox::{Cell, Checkpoints, Error, Session, SessionOptions};
use serde_json::json;

use crate::checkpoints::kept;
use crate::support::{
    data_engine, engine, eventually, good, inits, printed, processes_below, seconds, timed,
};
use crate::tools::tool;

async fn parent(checkpoints: Checkpoints) -> Session {
    engine().session_with(kept(checkpoints)).await.unwrap()
}

async fn fork(session: &Session) -> Session {
    session.fork(1).await.unwrap().remove(0)
}

/// SES-5: a fork has everything its parent bound, and nothing of what it binds is seen there.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_its_own_way() {
    let session = parent(Checkpoints::Off).await;
    good(&session, "x = [1]\nclass Point:\n    n = 4\np = Point()\nopen('data.txt', 'w').write('old')\nimport os; os.makedirs('sub/deep'); os.symlink('/workspace/data.txt', 'sub/link'); open('sub/run', 'w').write('#!'); os.chmod('sub/run', 0o750)").await;
    let before = session.manifest().await.unwrap();
    let fork = fork(&session).await;
    assert_ne!(fork.id(), session.id());
    assert_eq!(fork.directory(), Path::new("/forks/1/workspace"));
    let code = "x.append(2); y = 7; p.n = 5\nprint(x, type(p) is Point, os.getcwd(), open('data.txt').read(), open('sub/link').read(), oct(os.stat('sub/run').st_mode), os.listdir('sub/deep'))\nopen('data.txt', 'w').write('new'); open('more', 'w')";
    let outcome = good(&fork, code).await;
    assert_eq!(
        outcome.stdout.text,
        "[1, 2] True /forks/1/workspace old old 0o100750 []\n"
    );
    assert_eq!(outcome.cell, 2);
    let files: BTreeSet<_> = outcome.artifacts.iter().map(|a| a.path.as_str()).collect();
    assert_eq!(files, BTreeSet::from(["data.txt", "more"]));
    assert_eq!(session.manifest().await.unwrap(), before);
    let text = printed(&session, "print(x, p.n, 'y' in globals(), open('data.txt').read(), os.path.exists('more'), os.getcwd())").await;
    assert_eq!(text, "[1] 4 False old False /workspace\n");
    // Files go in and out by the fork's own workspace.
    fork.put("in.txt", b"for the fork").unwrap();
    assert_eq!(
        printed(&fork, "print(open('in.txt').read())").await,
        "for the fork\n"
    );
    assert_eq!(fork.get("data.txt").unwrap(), b"new");
    assert!(session.get("in.txt").is_err());
    // A module of the workspace is found in the copy.
    fork.put("mine.py", b"v = 3").unwrap();
    assert_eq!(printed(&fork, "import mine; print(mine.v)").await, "3\n");
}

/// The death of one is not that of another, whoever it is.
#[tokio::test(flavor = "multi_thread")]
async fn each_dies_for_itself() {
    let session = parent(Checkpoints::Off).await;
    good(&session, "import os, subprocess; x = 1").await;
    let mut forks = session.fork(4).await.unwrap();
    let outcome = forks[0].run("os._exit(3)").await.unwrap();
    assert_eq!(
        (outcome.cause, outcome.state),
        (Cause::Exit { code: 3 }, Fate::Lost)
    );
    let hog = "hog = []\nwhile True: hog.append(bytearray(1 << 24))";
    let outcome = forks[1].run(format!("try:\n    import mmap\n    while True:\n        m = mmap.mmap(-1, 1 << 24); m.write(b'x' * (1 << 24)); globals().setdefault('h', []).append(m)\nfinally: pass\n{hog}")).await.unwrap();
    assert!(matches!(outcome.cause, Cause::Memory { .. }), "{outcome:?}");
    let outcome = forks[2].run(timed("while True: pass", seconds(0.3))).await;
    assert_eq!(outcome.unwrap().status, Status::Timeout);
    good(&forks[2], "child = subprocess.Popen(['sleep', '60'])").await;
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    // A fork that is dropped takes its processes along, and no others.
    let sleeps = || {
        let below = processes_below(std::process::id());
        let names = below.into_iter().map(crate::support::name);
        names.filter(|name| name == "sleep").count()
    };
    eventually("the fork's child", || sleeps() == 1).await;
    drop(forks.remove(2));
    eventually("the end of the fork's child", || sleeps() == 0).await;
    // The parent goes first: the fork that is left lives on, and the last one takes the init along.
    let last = forks.pop().unwrap();
    drop(forks);
    session.close().await.unwrap();
    assert_eq!(printed(&last, "print(x + 1)").await, "2\n");
    assert_eq!(inits().len(), 1);
    let again = fork(&last).await;
    assert_eq!(printed(&again, "print(x + 2)").await, "3\n");
    drop((last, again));
    eventually("the end of the namespace group", || inits().is_empty()).await;
}

/// Fifty forks of one session bind a different value each, and none sees another's.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_forks_know_nothing_of_each_other() {
    let session = parent(Checkpoints::Auto).await;
    good(&session, "import os, random, uuid, tempfile, secrets; common = list(range(1000)); r = random.Random(1)").await;
    let before = session.manifest().await.unwrap();
    let forks = session.fork(50).await.unwrap();
    for (number, fork) in forks.iter().enumerate() {
        let code = format!(
            "mine = {number}; name_{number} = mine; open('mine', 'w').write(str(mine)); common.append(mine)"
        );
        good(fork, &code).await;
    }
    for (number, fork) in forks.iter().enumerate() {
        let code = "print(mine, open('mine').read(), common[1000:], [n for n in globals() if n.startswith('name_')])";
        let text = printed(fork, code).await;
        assert_eq!(
            text,
            format!("{number} {number} [{number}] ['name_{number}']\n")
        );
    }
    assert_eq!(session.manifest().await.unwrap(), before);
    assert_eq!(
        printed(&session, "print(len(common), os.listdir())").await,
        "1000 []\n"
    );
    // All fork slots, and then an error.
    let rest = session.fork(13).await.unwrap();
    let Err(Error::Fork(why)) = session.fork(1).await else {
        panic!("a 64th fork");
    };
    assert!(why.contains("at most"), "{why}");
    drop(rest);
    assert_eq!(
        printed(&fork(&session).await, "print(common[-1])").await,
        "999\n"
    );
}

/// J1 on forks of sessions: what is drawn differs in each.
#[tokio::test(flavor = "multi_thread")]
async fn j1_forks_draw_different_numbers() {
    let session = data_engine().session().await.unwrap();
    let code = "import random, numpy as np, uuid, tempfile, secrets, ssl, os\nrandom.seed(1); np.random.seed(1)\ndraw = lambda: (random.random(), np.random.random(), np.random.normal(), str(uuid.uuid1()), str(uuid.uuid4()), next(tempfile._get_candidate_names()), secrets.token_hex(8), ssl.RAND_bytes(8).hex())";
    good(&session, code).await;
    let mut forks = session.fork(20).await.unwrap();
    forks.push(session);
    let mut seen = BTreeSet::new();
    for fork in &forks {
        let text = printed(fork, "print(*draw(), sep='\\n')").await;
        seen.extend(text.lines().map(str::to_owned));
    }
    assert_eq!(seen.len(), 8 * forks.len());
}

/// J4, J5 and note 6: a fork reaches neither its parent nor a sibling.
#[tokio::test(flavor = "multi_thread")]
async fn j5_a_fork_reaches_no_other() {
    let session = parent(Checkpoints::Every).await;
    let setup = "import os, signal, socket, threading, subprocess, sys, resource\nopen('secret.txt', 'w').write('parent')\nparent = os.getpid()\nhandle = open('secret.txt', 'r+'); _ = handle.read(3)\na, b = socket.socketpair(); r, w = os.pipe()\nserver = socket.socket(socket.AF_UNIX); server.bind('\\0family'); server.listen()\nchild = subprocess.Popen(['sleep', '100'])";
    good(&session, setup).await;
    let forks = session.fork(2).await.unwrap();
    for fork in &forks {
        good(fork, "me = os.getpid(); open('mine', 'w').write('x')").await;
    }
    let sibling = printed(&forks[1], "print(me)").await;
    let attempts = format!(
        r"
sibling = {sibling}
def tried(what, action):
    try:
        print(what, 'DONE', action())
    except Exception as error:
        print(what, type(error).__name__)
for who, pid in (('parent', parent), ('sibling', sibling), ('child', child.pid)):
    tried(who + ' signal', lambda: os.kill(pid, signal.SIGKILL))
    tried(who + ' pidfd', lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
    tried(who + ' memory', lambda: open(f'/proc/{{pid}}/mem', 'rb'))
    tried(who + ' environment', lambda: open(f'/proc/{{pid}}/environ', 'rb').read())
    tried(who + ' descriptors', lambda: os.readlink(f'/proc/{{pid}}/fd/0'))
    tried(who + ' directory', lambda: os.listdir(f'/proc/{{pid}}/cwd'))
    tried(who + ' score', lambda: open(f'/proc/{{pid}}/oom_score_adj', 'w').write('1000'))
    tried(who + ' limits', lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)))
tried('file', lambda: open('/workspace/secret.txt').read())
tried('write', lambda: open('/workspace/new', 'w'))
tried('slot', lambda: os.listdir('/forks/2/workspace'))
tried('slot file', lambda: open('/forks/2/workspace/mine').read())
tried('listing', lambda: os.listdir('/workspace'))
tried('link', lambda: os.link('/workspace/secret.txt', 'stolen'))
tried('socket', lambda: a.send(b'x'))
tried('pipe', lambda: os.write(w, b'x'))
tried('server', lambda: server.accept())
tried('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0family'))
tried('wait', lambda: os.wait())
"
    );
    let text = printed(&forks[0], &attempts).await;
    let done: Vec<&str> = text.lines().filter(|line| line.contains("DONE")).collect();
    assert_eq!(done, [""; 0], "{text}");
    // A file that was open is one of the copy, where it stood; the parent's stands where it did.
    assert_eq!(
        printed(&forks[0], "print(handle.read(), open('secret.txt').read(), handle.seek(0), handle.write('forked'), handle.close())").await,
        "ent parent 0 6 None\n"
    );
    assert_eq!(
        printed(
            &session,
            "print(handle.read(), open('secret.txt').read(), child.poll(), a.send(b'x'))"
        )
        .await,
        "ent parent None 1\n"
    );
    assert_eq!(
        printed(&forks[1], "print(open('secret.txt').read())").await,
        "parent\n"
    );
}

/// A fork of a session that keeps copies keeps them, too, from its beginning on.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_restored() {
    for checkpoints in [Checkpoints::Auto, Checkpoints::Every] {
        let session = parent(checkpoints).await;
        good(&session, "import os, random; x = [1]").await;
        let fork = fork(&session).await;
        tokio::time::sleep(seconds(0.1)).await;
        let outcome = fork.run("x.append(2); os.abort()").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
        good(&fork, "x.append(3)").await;
        tokio::time::sleep(seconds(0.1)).await;
        let outcome = fork.run("os.kill(os.getpid(), 11)").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 3 }, "{outcome:?}");
        assert_eq!(
            printed(&fork, "print(x, os.getcwd())").await,
            "[1, 3] /forks/1/workspace\n"
        );
        fork.restore(1).await.unwrap();
        assert_eq!(printed(&fork, "print(x)").await, "[1]\n");
        let outcome = session.run("os._exit(1)").await.unwrap();
        assert_eq!(outcome.state, Fate::Restored { cell: 1 }, "{outcome:?}");
        let again = self::fork(&session).await;
        assert_eq!(printed(&again, "print(x)").await, "[1]\n");
        // A fork of a fork.
        let deep = self::fork(&fork).await;
        assert_eq!(
            printed(&deep, "print(x, os.getcwd())").await,
            "[1] /forks/1/3/workspace\n"
        );
    }
}

fn asking(code: &str) -> Cell {
    Cell {
        answers: true,
        ..Cell::from(code)
    }
}

/// The next call of a cell.
async fn asked(run: &mut belljar_sandbox::CellRun) -> CallId {
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Called { call, .. } => return call,
            Event::Outcome(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

/// Fork at a call: each continues from the same line with the same locals and another answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_forked_in_a_call() {
    let options = SessionOptions {
        tools: vec![tool("ask", &json!({"what": {}}))],
        ..kept(Checkpoints::Every)
    };
    let session = engine().session_with(options).await.unwrap();
    // Not where another call is open too, or where the main thread does something else.
    let two = "import asyncio, threading\nt = threading.Thread(target=tools.ask)\nt.start()\ntools.ask()\nt.join()";
    for (code, calls) in [(two, 2), ("await tools.ask()", 1)] {
        let mut run = session.run(asking(code));
        let mut open = Vec::new();
        for _ in 0..calls {
            open.push(asked(&mut run).await);
        }
        let refused = session.fork(1).await;
        assert!(matches!(refused, Err(Error::Fork(_))), "{refused:?}");
        for call in open {
            session.answer(call, Ok(json!(0).into())).await.unwrap();
        }
        assert!(run.outcome().await.unwrap().is_success());
    }
    let code = "def choose(base):\n    local = base * 10\n    print('asking')\n    answer = tools.ask('how much?')\n    return local + answer\nresult = choose(5)\nprint(result)";
    let mut run = session.run(asking(code));
    let call = asked(&mut run).await;
    let forks = session.fork(3).await.unwrap();
    assert!(matches!(forks[0].run("1").await, Err(Error::Waiting)));
    assert!(matches!(forks[0].manifest().await, Err(Error::Waiting)));
    for (number, fork) in forks.iter().enumerate() {
        let outcome = fork.resume(Ok(json!(number).into())).await.unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
        assert_eq!(outcome.stdout.text, format!("{}\n", 50 + number));
        assert_eq!(
            printed(fork, "print(result)").await,
            format!("{}\n", 50 + number)
        );
    }
    assert!(matches!(
        forks[0].resume(Ok(json!(1).into())).await,
        Err(Error::NoCall { .. })
    ));
    session.answer(call, Ok(json!(7).into())).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stdout.text, "asking\n57\n");
    // The forks are sessions like others: they ask and are forked again.
    let mut run = forks[1].run(asking("result = choose(result)"));
    asked(&mut run).await;
    let deep = fork(&forks[1]).await;
    assert!(deep.resume(Ok(json!(1).into())).await.unwrap().is_success());
    assert_eq!(printed(&deep, "print(result)").await, "511\n");
    drop(forks);
    let outcome = run.outcome().await;
    assert!(
        outcome.as_ref().is_ok_and(|o| o.state == Fate::Lost) || outcome.is_err(),
        "{outcome:?}"
    );
}
