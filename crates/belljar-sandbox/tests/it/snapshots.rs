//! Snapshots: what comes back in another engine, what does not and why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_sandbox::{Engine, Error, Limits, LoadReport, Session, SnapshotReport};

use crate::support::{
    data_engine, engine, forget_highest_resident, good, highest_resident, printed, seconds,
    session, without_checkpoints,
};

/// A directory for one snapshot.
pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("a.snapshot")
    }

    /// Nothing but the snapshot is left in the directory.
    fn holds(&self, count: usize) {
        assert_eq!(std::fs::read_dir(self.0.path()).unwrap().count(), count);
    }
}

fn not_saved(report: &SnapshotReport) -> BTreeMap<&str, &str> {
    let names = report.names.iter();
    let told = names.map(|name| (name.name.as_str(), name.why.as_deref()));
    told.filter_map(|(name, why)| Some((name, why?))).collect()
}

pub(crate) fn not_loaded(report: &LoadReport) -> BTreeMap<&str, &str> {
    let names = report.names.iter();
    let told = names.map(|name| (name.name.as_str(), name.why.as_deref()));
    told.filter_map(|(name, why)| Some((name, why?))).collect()
}

/// Saves a session and loads it in an engine of its own.
async fn through_a_file(
    session: &Session,
    engine: &Engine,
) -> (Session, SnapshotReport, LoadReport) {
    let place = Place::new();
    let saved = session.snapshot(&place.path()).await.unwrap();
    place.holds(1);
    let (loaded, report) = engine.load(&place.path(), Limits::default()).await.unwrap();
    (loaded, saved, report)
}

const MIXED: &str = r#"
import collections, dataclasses, enum, json, math, os, sqlite3, socket, threading
import numpy as np, pandas as pd
from sklearn.linear_model import LinearRegression

class Point:
    count = 0
    def __init__(self, x, y):
        self.x, self.y = x, y
        Point.count += 1
    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)
    def scaled(self):
        return Point(self.x * factor, self.y * factor)

class Point3(Point):
    def __init__(self, x, y, z):
        super().__init__(x, y)
        self.z = z

@dataclasses.dataclass
class Row:
    name: str
    values: list = dataclasses.field(default_factory=list)

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

Pair = collections.namedtuple("Pair", "left right")

factor = 3
counter = 0
def tick():
    global counter
    counter += 1
    return helper(counter)
def helper(n):
    return n * factor
def adder(n):
    def add(m):
        return n + m
    return add
add_five = adder(5)
square = lambda x: x * x
def fails():
    return 1 / zero
zero = 0

point = Point(1, 2)
point3 = Point3(1, 2, 3)
points = [point, point3, Point(5, 6)]
row = Row("a", [1, 2])
colour = Colour.BLUE
pair = Pair(point, "right")
itself = [1]; itself.append(itself)
tree = {"up": None, "down": {}}; tree["down"]["up"] = tree
shared_one = {"a": [1, 2, 3]}
shared_two = shared_one["a"]
frame = pd.DataFrame({"a": np.arange(1000), "b": np.linspace(0, 1, 1000), "c": ["text"] * 1000})
series = frame["b"]
large = np.arange(100_000, dtype=float)
same = large
fixed = np.arange(50_000); fixed.flags.writeable = False
strings = np.array(["x", None], dtype=object)
fitted = LinearRegression().fit(np.arange(10).reshape(-1, 1), np.arange(10) * 2.0)
random_numbers = np.random.default_rng(7)
module_of_mine = json
_private = "kept"

generator = (n for n in range(3))
async def waits(): pass
coroutine = waits()
open_file = open("data.txt", "w+")
lock = threading.Lock()
thread = threading.Thread(target=print)
connection = sqlite3.connect(":memory:")
sock = socket.socketpair()
holder = {"good": 1, "bad": [open_file]}
carrier = [["fresh"], open_file]
fresh = carrier[0]
late = [fresh, "late"]
def uses_lock(): return lock
class Refuses:
    def __reduce__(self):
        raise ValueError("not\nme " + "x" * 1000)
refuses = Refuses()
class Exits:
    def __reduce__(self):
        raise SystemExit(3)
exits = Exits()
after_the_bad_ones = [point, refuses.__class__, shared_two]
"#;

const CHECK: &str = r#"
assert points[0] is point and pair.left is point and after_the_bad_ones[0] is point
assert type(point) is Point and type(point3) is Point3 and isinstance(point3, Point)
assert Point.count == 3 and point.scaled() == Point(3, 6) and Point.count == 5
factor = 10
assert point.scaled() == Point(10, 20), "methods see the namespace"
assert [tick(), tick(), counter] == [10, 20, 2], "functions see the namespace"
def helper(n): return -n
assert tick() == -3, "and what is defined later"
assert add_five(1) == 6 and square(4) == 16
assert row == Row("a", [1, 2]) and dataclasses.fields(row)[1].name == "values"
assert colour is Colour.BLUE and Colour(1) is Colour.RED
assert itself[1] is itself and tree["down"]["up"] is tree
assert late[0] is fresh and fresh == ["fresh"], "also where a name that failed held it first"
assert shared_one["a"] is shared_two and after_the_bad_ones[2] is shared_two
assert frame.shape == (1000, 3) and frame["c"][3] == "text" and series[999] == 1
assert same is large and large[-1] == 99_999
large[0] = 5
assert same[0] == 5 and not fixed.flags.writeable
assert strings[1] is None and round(fitted.predict([[20]])[0]) == 40
assert random_numbers.random() == np.random.default_rng(7).random()
assert module_of_mine is json and _private == "kept" and math.pi > 3
assert [f"n{i}" for i in range(200) if globals()[f"n{i}"] != [i, str(i)]] == []
"#;

/// SES-5 of snapshots: over 200 names of all kinds, with an exact account of which come back.
#[tokio::test]
async fn two_hundred_names_with_an_exact_report() {
    let session = data_engine().session().await.unwrap();
    good(&session, MIXED).await;
    good(
        &session,
        "for i in range(200): globals()[f'n{i}'] = [i, str(i)]\ndel i",
    )
    .await;
    let before = printed(
        &session,
        "print(len([n for n in globals() if not n.startswith('__') and n != '_']))",
    )
    .await;
    let (loaded, saved, report) = through_a_file(&session, &data_engine()).await;

    assert_eq!(saved.library, "cloudpickle");
    assert_eq!(saved.names.len().to_string(), before.trim());
    assert!(saved.names.len() > 240);
    let long = format!("ValueError: not me {}", "x".repeat(293));
    let expected: BTreeMap<&str, &str> = [
        ("generator", "TypeError: cannot pickle 'generator' object"),
        ("coroutine", "TypeError: cannot pickle 'coroutine' object"),
        (
            "open_file",
            "TypeError: cannot pickle '_io.TextIOWrapper' object",
        ),
        (
            "carrier",
            "TypeError: cannot pickle '_io.TextIOWrapper' object",
        ),
        (
            "holder",
            "TypeError: cannot pickle '_io.TextIOWrapper' object",
        ),
        ("lock", "TypeError: cannot pickle '_thread.lock' object"),
        (
            "thread",
            "TypeError: cannot pickle 'threading.Thread' object",
        ),
        (
            "connection",
            "TypeError: cannot pickle 'sqlite3.Connection' object",
        ),
        ("sock", "TypeError: cannot pickle 'socket' object"),
        ("refuses", long.as_str()),
        ("exits", "SystemExit: 3"),
    ]
    .into();
    assert_eq!(not_saved(&saved), expected);
    let told = not_loaded(&report);
    assert_eq!(
        told.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        told["lock"],
        "not saved: TypeError: cannot pickle '_thread.lock' object"
    );
    assert_eq!((report.cells, report.packages.len()), (3, 0));

    // What was saved lives on, and so does the session that it was saved from.
    for session in [&loaded, &session] {
        good(session, CHECK).await;
    }
    assert_eq!(
        printed(&session, "print(next(generator), lock.locked())").await,
        "0 False\n"
    );
    // Cell numbers continue, so that tracebacks show the lines of the cells that they name.
    let outcome = loaded.run("\n\nfails()").await.unwrap();
    assert_eq!(outcome.cell, 5);
    let traceback = outcome.exception.unwrap().traceback;
    assert!(
        traceback.contains("return 1 / zero") && traceback.contains("<cell 5>"),
        "{traceback}"
    );
    // A second time, from what was loaded.
    let (again, _, report) = through_a_file(&loaded, &data_engine()).await;
    assert_eq!(not_loaded(&report).len(), 0, "{report:?}");
    good(
        &again,
        "assert points[0] is point and tick() == -4 and Point.count == 7",
    )
    .await;
}

/// The first cell after loading reports its own changes only, and the manifest knows the cells.
#[tokio::test]
async fn the_manifest_goes_on() {
    let session = session().await;
    good(&session, "a = 1").await;
    good(&session, "b = [2]").await;
    let (loaded, _, _) = through_a_file(&session, &engine()).await;
    let names = |names: Vec<belljar_sandbox::protocol::NameInfo>| -> Vec<(String, u32)> {
        names
            .into_iter()
            .map(|info| (info.name, info.cell))
            .collect()
    };
    let manifest = names(loaded.manifest().await.unwrap());
    assert_eq!(manifest, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    let outcome = good(&loaded, "b.append(3); c = 1").await;
    assert_eq!(names(outcome.changes.added), [("c".to_owned(), 3)]);
    assert_eq!(names(outcome.changes.changed), [("b".to_owned(), 2)]);
}

/// Without cloudpickle, values come back and definitions say what is missing.
#[tokio::test]
async fn without_cloudpickle_values_come_back() {
    let session = session().await;
    good(&session, "import math\ndef f(): pass\nclass C: pass\nc = C()\nx = {'a': [1, 2]}\ny = x['a']\nout = __import__('sys').stdout").await;
    let (loaded, saved, report) = through_a_file(&session, &engine()).await;
    assert_eq!(saved.library, "pickle");
    let told = not_saved(&saved);
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), ["C", "c", "f"]);
    assert_eq!(
        told["f"],
        "_pickle.PicklingError: f is defined in a cell; to save it, the environment needs the package cloudpickle"
    );
    assert_eq!(not_loaded(&report).len(), 3);
    good(
        &loaded,
        "assert x['a'] is y and math.pi > 3\nprint('x', file=out)",
    )
    .await;
}

/// A name that fails to load takes with it only those that hold a part of it.
#[tokio::test]
async fn a_name_that_fails_to_load_costs_no_other() {
    let session = data_engine().session().await.unwrap();
    good(&session, "class Moody:\n    def __init__(self, held): self.held = held\n    def __setstate__(self, state):\n        self.__dict__ = state\n        if 'loaded' in globals(): raise RuntimeError('not today')\n        globals()['loaded'] = 1\nbefore = ['before']\nfirst = Moody([before])\ninner = ['inner']\nmoody = Moody([before, inner, list(range(300))])\nholds = {'inner': inner, 'before': before}\ninside = [holds]\nafter = [before, ['after']]\nlast = after[1]").await;
    // `inner` is written as a part of what is saved first, so the order of names is made so.
    good(&session, "x = inner, holds, inside, after, last; del inner, holds, inside, after, last\n_, holds, inside, after, last = x; inner = x[0]; del x").await;
    let (loaded, saved, report) = through_a_file(&session, &data_engine()).await;
    assert_eq!(not_saved(&saved).len(), 0);
    let expected = [
        ("moody", "RuntimeError: not today"),
        ("holds", "ValueError: it holds parts of moody"),
        ("inside", "ValueError: it holds parts of moody, holds"),
        (
            "inner",
            "ValueError: it holds parts of moody, holds, inside",
        ),
    ];
    assert_eq!(not_loaded(&report), expected.into());
    good(&loaded, "assert after[0] is before and after[1] is last and last == ['after']\nassert first.held[0] is before").await;
}

/// Files come back with their names, contents, directories and the right to be run.
#[tokio::test]
async fn files_with_odd_names() {
    let session = session().await;
    good(&session, r"
import os
names = ['plain', 'with space', 'new\nline', '图/深/x', '-rf', 'quote\'s', '*', 'a' * 255, '.hidden', 'é\u0301']
for n in names:
    if '/' in n: os.makedirs(os.path.dirname(n))
    open(n, 'w').write(n)
os.mkdir('empty')
open('run', 'w').write('#!/bin/sh'); os.chmod('run', 0o755)
open('big', 'wb').write(bytes(range(256)) * 20_000)
open('module_here.py', 'w').write('value = 5')
import module_here
os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')
open(b'not\xff-utf8', 'w').write('x')").await;
    let (loaded, saved, report) = through_a_file(&session, &engine()).await;
    assert_eq!((saved.files, report.files), (14, 14));
    let left: BTreeMap<&str, &str> = report
        .files_left_out
        .iter()
        .map(|f| (f.path.as_str(), f.why.as_str()))
        .collect();
    let expected = [
        ("link", "not a regular file"),
        ("not\u{fffd}-utf8", "its name is not UTF-8"),
        ("pipe", "not a regular file"),
    ];
    assert_eq!(left, expected.into());
    let check = r"
assert all(open(n).read() == n for n in names)
assert os.listdir('empty') == [] and os.access('run', os.X_OK) and not os.access('plain', os.X_OK)
assert open('big', 'rb').read() == bytes(range(256)) * 20_000
assert module_here.value == 5 and os.stat('plain').st_uid == os.getuid()
open('empty/new', 'w').write('1'); open('plain', 'a').write('1')
print(sorted(os.listdir('.')) == sorted([n for n in names if '/' not in n] + ['图', 'empty', 'run', 'big', 'module_here.py', '__pycache__']))";
    let out = printed(&loaded, check).await;
    assert_eq!(out, "True\n");
}

/// A name that takes too long or is too large is left out; the rest is saved.
#[tokio::test]
async fn heavy_time_and_size_have_bounds() {
    let limits = Limits {
        wall_time: seconds(1.5),
        memory_bytes: 256 << 20,
        ..Limits::default()
    };
    let session = data_engine()
        .session_with(without_checkpoints(limits.clone()))
        .await
        .unwrap();
    good(&session, "import time, numpy as np\nclass Slow:\n    def __reduce__(self):\n        time.sleep(60)\nclass Endless:\n    def __reduce__(self):\n        while True:\n            try: time.sleep(60)\n            except BaseException as e: raise RuntimeError('caught') from e\nslow = Slow(); endless = Endless(); x = 1\nbase = np.zeros(80 << 20, dtype=np.uint8)\none, two, three = base[1:], base[2:], base[3:]\nlast = 2").await;
    let place = Place::new();
    let saved = session.snapshot(&place.path()).await.unwrap();
    let told = not_saved(&saved);
    assert_eq!(told["slow"], "it took longer than its time");
    assert_eq!(told["endless"], "RuntimeError: caught");
    // Views of one array are arrays of their own in a snapshot.
    let over = "OverflowError: the snapshot would be over its limit";
    assert_eq!((told["three"], told.len()), (over, 3), "{told:?}");
    assert!(session.run("x").await.unwrap().is_success());

    // One that never leaves C: the host's deadline ends the session, and nothing is left behind.
    good(&session, "class Stuck:\n    def __reduce__(self):\n        import collections, itertools\n        collections.deque(itertools.repeat(1), 0)\nstuck = Stuck()").await;
    let place = Place::new();
    let started = Instant::now();
    let error = session.snapshot(&place.path()).await.unwrap_err();
    assert!(matches!(error, Error::Unresponsive), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(30));
    place.holds(0);
    let error = session.snapshot(&place.path()).await.unwrap_err();
    assert!(matches!(error, Error::Ended(_)), "{error:?}");
}

/// A full disk is reported, and the session continues.
#[tokio::test]
async fn a_place_that_can_not_be_written() {
    let session = session().await;
    good(&session, "x = 5").await;
    let error = session.snapshot(Path::new("/proc/no/such/place")).await;
    assert!(matches!(error, Err(Error::Io { .. })), "{error:?}");
    let error = session.snapshot(Path::new("/dev/full/x")).await;
    assert!(matches!(error, Err(Error::Io { .. })), "{error:?}");
    assert_eq!(printed(&session, "print(x)").await, "5\n");
}

/// Variables of any size go through in parts: the host's memory stays flat.
#[tokio::test]
async fn heavy_variables_of_300_mb_pass_through() {
    let limits = Limits {
        memory_bytes: 1 << 30,
        ..Limits::default()
    };
    let engine = data_engine();
    let session = engine
        .session_with(without_checkpoints(limits.clone()))
        .await
        .unwrap();
    good(
        &session,
        "import numpy as np\na = np.arange(25_000_000)\nb = bytes(100_000_000)",
    )
    .await;
    let place = Place::new();
    let before = forget_highest_resident();
    let saved = session.snapshot(&place.path()).await.unwrap();
    assert!(
        saved.bytes > 300_000_000 && not_saved(&saved).is_empty(),
        "{saved:?}"
    );
    drop(session);
    let (loaded, report) = engine.load(&place.path(), limits).await.unwrap();
    assert!(not_loaded(&report).is_empty(), "{report:?}");
    let grown = highest_resident() - before;
    assert!(grown < 120_000, "the host grew by {grown} kB");
    good(
        &loaded,
        "assert a[-1] == 24_999_999 and a.flags.writeable and b == bytes(100_000_000)",
    )
    .await;
}
