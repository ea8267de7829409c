//! J: the template.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use belljar_sandbox::protocol::Cause;
use belljar_sandbox::{Backend, Error, Rotation, Session, SessionOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{CANARY_VARIABLE, Case, Severity, posture};
use crate::support::{
    bare_environment, data_environment, descriptors, eventually, plain_builder, printed,
    processes_below, template, traces,
};

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// A number of `/proc/<pid>/<file>`, by its name there.
fn number_of(pid: u32, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What two forks of one template have in common.
async fn layout(session: &Session) -> String {
    let code = "print(hash('a'), *sorted(l.split()[0] for l in open('/proc/self/maps') if '.so' in l or '[heap]' in l or '[stack]' in l))";
    printed(session, code).await
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j1_random_numbers() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "J1",
        Severity::Lateral,
        "200 sessions: random, numpy.random, secrets, uuid1, uuid4, ssl, tempfile, os.urandom, hashes of new objects",
        "all distinct",
    )
    .await;
    let code = r"
import json, os, random, secrets, ssl, tempfile, uuid
import numpy
print(json.dumps({
    'random': random.random(), 'Random': random.Random().random(), 'SystemRandom': random.SystemRandom().random(),
    'numpy': numpy.random.random(), 'numpy integers': str(numpy.random.randint(0, 2**62)), 'numpy normal': numpy.random.normal(),
    'generator': numpy.random.default_rng().random(), 'secrets': secrets.token_hex(16), 'uuid1': str(uuid.uuid1()),
    'uuid4': str(uuid.uuid4()), 'ssl': ssl.RAND_bytes(16).hex(), 'tempfile': tempfile.mktemp(), 'urandom': os.urandom(16).hex(),
    'sample': str(random.sample(range(10**9), 3)), 'shuffle': str(numpy.random.permutation(50).tolist()),
}))
";
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for _ in 0..50 {
        // Four at a time: also those that start in the same moment differ.
        let draw = async || {
            let session = case.engine().session().await.unwrap();
            case.printed(&session, code).await
        };
        let (one, two, three, four) = tokio::join!(draw(), draw(), draw(), draw());
        for text in [one, two, three, four] {
            let drawn: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
            for (source, value) in drawn {
                seen.entry(source).or_default().insert(value.to_string());
            }
        }
    }
    assert_eq!(seen.len(), 15);
    for (source, values) in seen {
        assert_eq!(values.len(), 200, "{source}");
    }
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_hashes() {
    let case = Case::begin(
        "J2",
        Severity::Lateral,
        "compare hash('a') across sessions",
        "accepted: the same in all sessions of one engine, since they are forks of one template",
    )
    .await;
    let (one, other) = (case.session().await, case.session().await);
    let hash = case.printed(&one, "print(hash('a'))").await;
    assert_eq!(hash, case.printed(&other, "print(hash('a'))").await);
    case.end([one, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_memory_layout() {
    let case = Case::begin(
        "J3",
        Severity::Lateral,
        "compare addresses in /proc/self/maps across sessions without a tenant",
        "accepted: the same in all sessions of one template",
    )
    .await;
    let (one, other) = (case.session().await, case.session().await);
    let found = layout(&one).await;
    assert!(found.split_whitespace().count() > 10, "{found}");
    assert_eq!(found, layout(&other).await);
    case.end([one, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j3a_layout_of_other_tenants() {
    let case = Case::begin(
        "J3a",
        Severity::Lateral,
        "compare hash('a') and addresses across tenants, across rotation, and with the fresh backend",
        "nothing is the same",
    )
    .await;
    let session = case.session().await;
    let mut seen = vec![layout(&session).await];
    // Engines of their own, which end before the oracle looks for what is left.
    let engine = plain_builder(bare_environment()).build();
    for tenant in ["a", "b"] {
        let options = SessionOptions {
            tenant: Some(tenant.into()),
            ..SessionOptions::default()
        };
        let session = engine.session_with(options).await.unwrap();
        seen.push(layout(&session).await);
    }
    engine.shutdown().await;
    let rotation = Rotation {
        sessions: Some(1),
        age: None,
    };
    let engine = plain_builder(bare_environment()).rotation(rotation).build();
    let before = layout(&engine.session().await.unwrap()).await;
    let mut after = before.clone();
    for _ in 0..100 {
        after = layout(&engine.session().await.unwrap()).await;
        if after != before {
            break;
        }
    }
    seen.extend([before, after]);
    engine.shutdown().await;
    let engine = plain_builder(bare_environment())
        .backend(Backend::Fresh)
        .build();
    for _ in 0..2 {
        seen.push(layout(&engine.session().await.unwrap()).await);
    }
    engine.shutdown().await;
    drop(engine);
    // No hash and no area is the same in any two of them.
    for position in 0..8 {
        let values: BTreeSet<&str> = seen
            .iter()
            .map(|text| text.split_whitespace().nth(position).unwrap())
            .collect();
        assert_eq!(values.len(), 7, "{seen:#?}");
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j4_secrets_in_memory() {
    let case = Case::begin(
        "J4",
        Severity::HostLeak,
        "scan all of its own memory for canaries: the host's environment and memory, a host file, the sibling's variables",
        "none is there: the template is not a fork of the host, and sessions are forks of the template alone",
    )
    .await;
    // `own` shows that the scan finds what is there. Written so that no canary stands in the code.
    let code = r#"
import os, re
own = "CANARY-" + "%016x" % int.from_bytes(b"\x0bwn mine", "big")
found, bytes_read = set(), 0
with open("/proc/self/mem", "rb", 0) as memory, open("/proc/self/maps") as maps:
    for line in maps.read().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if "r" not in line.split()[1] or "[v" in line:
            continue
        try:
            memory.seek(start)
            data = memory.read(end - start)
        except OSError:
            continue
        bytes_read += len(data)
        found |= {match.decode() for match in re.findall(b"CANARY-[0-9a-f]{16}", data)}
print(bytes_read > 5_000_000, own in found, sorted(found - {own}), [name for name in os.environ if "CANARY" in name])
"#;
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "True True [] []\n");
    // None of the processes around it was given the host's variables either.
    if belljar_walls::has_admin_capability() {
        let ours = processes_below(std::process::id());
        assert!(ours.len() >= 7, "{ours:?}");
        for pid in ours {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let variables = String::from_utf8_lossy(&variables);
            assert!(!variables.contains(CANARY_VARIABLE), "{pid}");
        }
    }
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j5_nothing_is_recycled() {
    let case = Case::begin(
        "J5",
        Severity::Lateral,
        "leave files, a umask, handlers, limits, descriptors, variables, modules and built-in names behind, and end",
        "the next session has none of it, and runs as another user",
    )
    .await;
    let look_around = concat!(include_str!("../it/posture.py"), "\nprint(posture())");
    let mut users = BTreeSet::new();
    for _ in 0..10 {
        let session = case.session().await;
        let look = r"
import builtins, os, signal, sys
print([os.listdir(path) for path in ('/workspace', '/tmp', '/dev/shm')], 'left' in globals(), 'left' in sys.modules,
      signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGALRM), os.getcwd(), hasattr(builtins, 'left'), '/tmp' in sys.path)
";
        assert_eq!(
            case.printed(&session, look).await,
            "[[], [], []] False False 0 0 /workspace False False\n"
        );
        let found = posture(&case.printed(&session, look_around).await);
        let golden = posture(include_str!("../it/posture.golden"));
        let new: Vec<_> = found.difference(&golden).collect();
        assert!(new.is_empty(), "{new:?}");
        for pid in case.members(&session) {
            users.insert(number_of(pid, "status", "Uid:"));
        }
        let leave = r"
import builtins, os, resource, signal, sys, types
left = 1
sys.modules['left'] = types.ModuleType('left')
for path in ('/workspace/left', '/tmp/left', '/dev/shm/left'): open(path, 'w').write('left')
os.umask(0)
os.environ['LEFT'] = '1'
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
os.chdir('/tmp')
kept = [os.open('/tmp/left', os.O_RDONLY) for _ in range(20)]
builtins.left = 1
sys.path.insert(0, '/tmp')
sys.setrecursionlimit(200)
";
        case.printed(&session, leave).await;
        session.close().await.unwrap();
    }
    if belljar_walls::has_admin_capability() {
        assert_eq!(users.len(), 10, "{users:?}");
    }
    case.end([]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j6_threads_of_the_template() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "J6",
        Severity::Integrity,
        "a template with numpy, scipy, scikit-learn and matplotlib in it",
        "has one thread, so that no fork copies a lock that another thread holds; its forks use threads as they like",
    )
    .await;
    assert_eq!(number_of(template().unwrap(), "status", "Threads:"), 1);
    let session = case.session().await;
    let code = "import numpy, threading\na = numpy.random.random((400, 400))\nout = []\nthreads = [threading.Thread(target=lambda: out.append((a @ a).shape)) for _ in range(4)]\nfor t in threads: t.start()\nfor t in threads: t.join()\nprint(len(out))";
    assert_eq!(case.printed(&session, code).await, "4\n");
    assert_eq!(number_of(template().unwrap(), "status", "Threads:"), 1);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j7_touching_shared_pages() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "J7",
        Severity::PeerDos,
        "write to every page that is shared with the template",
        "charged to the session; the template's memory is as it was",
    )
    .await;
    case.engine().wait_until_shared().await.unwrap();
    let session = case.session().await;
    let warm = template().unwrap();
    let private = |pid| number_of(pid, "smaps_rollup", "Private_Dirty:");
    let dirty = |pid| private(pid) + number_of(pid, "smaps_rollup", "Shared_Dirty:");
    let before = dirty(warm);
    let interpreter = *case.members(&session).first().unwrap();
    let own_before = private(interpreter);
    let code = r"
import ctypes, gc
gc.disable()
pages = 0
for line in open('/proc/self/maps').read().splitlines():
    area, rights, *_ = line.split()
    if rights != 'rw-p' or '[stack]' in line: continue
    start, end = (int(part, 16) for part in area.split('-'))
    for page in range(start, end, 4096):
        ctypes.memmove(page, page, 1)
        pages += 1
print(pages)
";
    let outcome = case.outcome(&session, code).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let touched_kb = outcome.stdout.text.trim().parse::<u64>().unwrap() * 4;
    let own = private(interpreter) - own_before;
    assert!(
        own > 10_000 && own <= touched_kb + 1024,
        "{own} of {touched_kb} kB"
    );
    // What the kernel charges is at least what it copied.
    let peak = outcome.peak_memory_bytes.unwrap();
    assert!(peak >> 10 >= own, "{peak} bytes, {own} kB");
    let after = dirty(warm);
    assert!(after.abs_diff(before) < 1024, "{before} {after}");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j8_death_of_the_template() {
    let case = Case::begin(
        "J8",
        Severity::PeerDos,
        "kill the template five times while ten sessions at a time are asked for",
        "it is started again; each request is served or told why not; live sessions don't notice",
    )
    .await;
    let live = case.session().await;
    case.printed(&live, "kept = 1").await;
    let mut served = 0;
    for _ in 0..5 {
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let engine = case.engine().clone();
            requests.spawn(async move {
                let session = engine.session().await?;
                session.run("print(6 * 7)").await
            });
        }
        tokio::time::sleep(Duration::from_millis(15)).await;
        let old = template();
        if let Some(old) = old {
            kill(old);
        }
        while let Some(result) = requests.join_next().await {
            match result.unwrap() {
                Ok(outcome) => {
                    assert_eq!(outcome.stdout.text, "42\n", "{outcome:?}");
                    served += 1;
                }
                Err(Error::Ended(_) | Error::Session(_) | Error::Template { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(case.printed(&live, "print(kept)").await, "1\n");
        eventually("a new template", || {
            template().is_some_and(|new| Some(new) != old)
        })
        .await;
    }
    assert!(served >= 5, "{served}");
    // How a session ends is known though its parent is gone.
    let outcome = case.fails(&live, "import os; os.abort()").await;
    assert!(
        matches!(outcome.cause, Cause::Signal { number: 6, .. }),
        "{outcome:?}"
    );
    case.end([live]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_nothing_is_said_twice() {
    let case = Case::begin(
        "J9",
        Severity::Integrity,
        "buffers, atexit functions and logging handlers that a fork copies: of the template, and of a cell that forks",
        "each line comes once; nothing of the template's runs in a session",
    )
    .await;
    let mut sessions = Vec::new();
    for (code, stdout, stderr) in [
        (
            "# One is that of logging itself.\nimport atexit, logging, threading\nprint(atexit._ncallbacks() - 1, logging.getLogger().handlers, threading.active_count())",
            "0 [] 1\n",
            "",
        ),
        // Not flushed before the fork; the child ends as Python does.
        (
            "import os, sys\nprint('once')\nsys.stderr.write('warned\\n')\nif os.fork() == 0: sys.exit(0)\n_ = os.wait()",
            "once\n",
            "warned\n",
        ),
        (
            "import os, logging\nlogging.warning('once')\nif os.fork() == 0:\n    logging.warning('child')\n    os._exit(0)\n_ = os.wait()",
            "",
            "WARNING:root:once\nWARNING:root:child\n",
        ),
        (
            "import atexit\n_ = atexit.register(print, 'at exit')\nimport sys\nsys.exit(0)",
            "",
            "",
        ),
    ] {
        let session = case.session().await;
        let outcome = case.outcome(&session, code).await;
        assert_eq!(
            (outcome.stdout.text.as_str(), outcome.stderr.text.as_str()),
            (stdout, stderr),
            "{code}"
        );
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_j11_objects_of_the_template() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "J11",
        Severity::Integrity,
        "change objects of the template: attributes, contents, reference counts and bytes in memory, and end them",
        "changed in that session alone; the template and its other sessions keep theirs",
    )
    .await;
    case.engine().wait_until_shared().await.unwrap();
    let warm = template().unwrap();
    let (before, peer) = (number_of(warm, "status", "VmRSS:"), case.session().await);
    let look = "import json.decoder, numpy, pandas\nprint(json.decoder.__doc__[:20], json.decoder.NaN, len(pandas.__all__), numpy.pi, numpy.arange(3).sum(), pandas.Series([1, 2]).sum())";
    let usual = case.printed(&peer, look).await;
    let mut sessions = Vec::new();
    for code in [
        "import json.decoder, numpy, pandas\njson.decoder.NaN = 'changed'\nnumpy.pi = 3\npandas.__all__.clear()",
        // The text of a string, behind the interpreter's back.
        "import ctypes, json.decoder, sys\ntext = json.decoder.__doc__\nctypes.memset(id(text) + sys.getsizeof(text) - 1 - len(text), ord('X'), len(text))\nassert json.decoder.__doc__[:3] == 'XXX'",
        // References that nobody counts, given up one by one, and then at once.
        "import ctypes, json, numpy, pandas\nfor thing in (json.dumps, json.decoder.NaN, numpy.ndarray, pandas.DataFrame):\n    for _ in range(100): ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))\n    ctypes.c_uint32.from_address(id(thing)).value = 0x7000\nassert pandas.Series([1, 2]).sum() == 3",
        "import gc, sys\ngc.unfreeze()\nsys.modules.clear()\n_ = gc.collect()",
        // Freed as if the session had made it.
        "import ctypes, json\nctypes.c_uint32.from_address(id(json.decoder.__doc__)).value = 1\nctypes.pythonapi.Py_DecRef(ctypes.py_object(json.decoder.__doc__))",
    ] {
        let session = case.session().await;
        // Some of these are the end of the session, which is its own.
        let _ = session.run(code).await.unwrap();
        assert_eq!(case.printed(&peer, look).await, usual, "{code}");
        let next = case.session().await;
        assert_eq!(case.printed(&next, look).await, usual, "{code}");
        sessions.extend([session, next]);
    }
    assert_eq!(template(), Some(warm), "the template lives");
    let after = number_of(warm, "status", "VmRSS:");
    assert!(after.abs_diff(before) < 1024, "{before} {after}");
    sessions.push(peer);
    case.end(sessions).await;
}

/// `BELLJAR_SOAK_FORKS=100000` is the long form.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_j10_many_sessions() {
    let case = Case::begin(
        "J10",
        Severity::HostDos,
        "2,000 sessions of one template, four at a time (100,000 by a setting)",
        "no growth of the template's memory, descriptors and mounts, nor of the host's",
    )
    .await;
    let forks: u32 = std::env::var("BELLJAR_SOAK_FORKS").map_or(2000, |text| text.parse().unwrap());
    let warm = template().unwrap();
    let entries = |path: String| std::fs::read_dir(path).unwrap().count();
    let look = || {
        let mounts = std::fs::read_to_string(format!("/proc/{warm}/mountinfo")).unwrap();
        (
            entries(format!("/proc/{warm}/fd")),
            mounts.lines().count(),
            traces(std::process::id()),
        )
    };
    let soak = async |count: u32| {
        let some = async || {
            for _ in 0..count / 4 {
                let session = case.engine().session().await.unwrap();
                session.close().await.unwrap();
            }
        };
        tokio::join!(some(), some(), some(), some());
    };
    soak(100).await;
    let (before, open) = (look(), descriptors());
    let resident = number_of(warm, "status", "VmRSS:");
    soak(forks).await;
    eventually("the removal of all cgroups", || look() == before).await;
    eventually("the host's descriptors as before", || descriptors() <= open).await;
    let grown = number_of(warm, "status", "VmRSS:").saturating_sub(resident);
    assert!(grown < 1024, "the template grew by {grown} kB");
    case.end([]).await;
}
