//! ENV-3: environments are built from locked packages, and any existing Python can be used.
//!
//! These tests need `uv`, a `python3` and a package index, and fail with the reason without them.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not see as tests"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_sandbox::{
    BuildStep, Environment, EnvironmentError, EnvironmentSpec, EnvironmentStore,
};

/// What is in the store's directory, apart from its lock.
fn entries(store: &EnvironmentStore) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(store.directory()) else {
        return BTreeSet::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".lock")
        .collect()
}

fn spec(name: &str, packages: &[&str], preload: &[&str]) -> EnvironmentSpec {
    EnvironmentSpec {
        packages: packages.iter().map(ToString::to_string).collect(),
        preload: preload.iter().map(ToString::to_string).collect(),
        ..EnvironmentSpec::new(name)
    }
}

fn python_says(python: &Path, code: &str) -> String {
    succeed(Command::new(python).args(["-I", "-c", code]))
}

/// Runs a command that must succeed, and returns what it printed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// ENV-3: built, recorded with hashes, listed, loaded, used and removed.
#[test]
fn an_environment_lives_from_create_to_remove() {
    let root = tempfile::tempdir().unwrap();
    let store = EnvironmentStore::open(root.path());
    assert_eq!(store.list().unwrap(), []);

    let mut installs = false;
    let built = store
        .create(&spec("small", &["six"], &["six"]), &mut |step| {
            installs |= step == BuildStep::Installing;
        })
        .unwrap();
    assert!(installs);
    assert_eq!(built.name(), "small");
    assert_eq!(built.preload(), ["six"]);
    assert!(built.version() >= (3, 10, 0));
    let [six] = built.packages() else {
        panic!("one package expected: {:?}", built.packages());
    };
    assert_eq!(six.name, "six");
    assert!(!six.hashes.is_empty());
    for hash in &six.hashes {
        let digest = hash.strip_prefix("sha256:").unwrap();
        assert_eq!(digest.len(), 64, "{hash}");
    }

    // It is in its place, it works there, and what it needs is what it says.
    let place = store.directory().canonicalize().unwrap().join("small");
    assert!(built.python().starts_with(&place));
    assert_eq!(
        python_says(built.python(), "import six; print(six.__version__)"),
        six.version
    );
    let prefixes = python_says(
        built.python(),
        "import sys; print(sys.prefix); print(sys.base_prefix); print(*filter(None, sys.path), sep='\\n')",
    );
    for needed in prefixes.lines().filter(|path| Path::new(path).exists()) {
        assert!(
            built
                .read_only_paths()
                .iter()
                .any(|shown| Path::new(needed).starts_with(shown)),
            "{needed} is not among {:?}",
            built.read_only_paths()
        );
    }
    let compiled = python_says(
        built.python(),
        "import six, os; print(os.path.exists(six.__cached__))",
    );
    assert_eq!(compiled, "True", "bytecode is compiled at install");

    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(place.join("environment.json")).unwrap()).unwrap();
    assert_eq!(record["format"], 1);
    assert_eq!(record["spec"]["packages"], serde_json::json!(["six"]));
    assert_eq!(record["lock_sha256"].as_str().unwrap().len(), 64);
    assert!(
        !record["uv_version"].as_str().unwrap().is_empty(),
        "{record}"
    );

    assert_eq!(store.list().unwrap(), std::slice::from_ref(&built));
    assert_eq!(store.load("small").unwrap(), built);
    assert!(matches!(
        store.create(&spec("small", &[], &[]), &mut |_| {}),
        Err(EnvironmentError::AlreadyExists { .. })
    ));

    store.remove("small").unwrap();
    assert_eq!(entries(&store), BTreeSet::new());
    assert!(matches!(
        store.load("small"),
        Err(EnvironmentError::NotFound { .. })
    ));
}

/// ENV-3: a build that fails says why, and nothing of it stays.
#[test]
fn a_failed_build_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let store = EnvironmentStore::open(root.path());

    let missing = "belljar-test-package-that-does-not-exist";
    let message = store
        .create(&spec("broken", &[missing], &[]), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(message.contains("find versions"), "{message}");
    assert!(message.contains(missing), "{message}");
    assert_eq!(entries(&store), BTreeSet::new());

    // No package is needed for this one: an environment may be Python alone.
    let message = store
        .create(
            &spec("broken", &[], &["belljar_no_such_module"]),
            &mut |_| {},
        )
        .unwrap_err()
        .to_string();
    assert!(message.contains("belljar_no_such_module"), "{message}");
    assert!(message.contains("missing package"), "{message}");
    assert_eq!(entries(&store), BTreeSet::new());

    let nowhere = EnvironmentSpec {
        python: Some(PathBuf::from("/nonexistent/python")),
        ..spec("broken", &[], &[])
    };
    assert!(matches!(
        store.create(&nowhere, &mut |_| {}),
        Err(EnvironmentError::PythonMissing { .. })
    ));
    assert_eq!(entries(&store), BTreeSet::new());
}

/// ENV-3: two who create at the same time do not clash: one builds, the other gets an error.
#[test]
fn two_creators_take_turns() {
    let root = tempfile::tempdir().unwrap();
    let store = EnvironmentStore::open(root.path());
    let results: Vec<_> = std::thread::scope(|scope| {
        let create = || {
            let result = store.create(&spec("same", &[], &[]), &mut |_| {});
            result.map(|environment| environment.name().to_owned())
        };
        let threads = [scope.spawn(create), scope.spawn(create)];
        threads.map(|thread| thread.join().unwrap()).into()
    });
    let (built, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((built.len(), refused.len()), (1, 1), "{refused:?}");
    assert!(matches!(
        refused[0],
        Err(EnvironmentError::AlreadyExists { .. })
    ));
    assert_eq!(entries(&store), BTreeSet::from(["same".to_owned()]));
}

/// ENV-3: an interpreter that exists already is used as it is, by its path or its venv's.
#[test]
fn any_python_can_be_used() {
    let interpreter = python_says(Path::new("python3"), "import sys; print(sys.executable)");
    let system = Environment::from_python(interpreter.as_ref()).unwrap();
    assert_eq!(system.name(), format!("python:{interpreter}"));
    assert_eq!(system.python(), Path::new(&interpreter));
    let version = python_says(
        system.python(),
        "import sys; print('(%d, %d, %d)' % sys.version_info[:3])",
    );
    assert_eq!(format!("{:?}", system.version()), version);
    assert!(!system.read_only_paths().is_empty());
    for package in system.packages() {
        assert!(package.hashes.is_empty() && !package.version.is_empty());
    }

    let root = tempfile::tempdir().unwrap();
    let venv = root.path().join("venv");
    let status = Command::new(system.python())
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status()
        .unwrap();
    assert!(status.success(), "python -m venv failed");
    let project = root.path().join("project");
    fs::create_dir(&project).unwrap();
    let site = python_says(
        &venv.join("bin/python"),
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    );
    fs::write(
        Path::new(&site).join("project.pth"),
        format!("{}\n", project.display()),
    )
    .unwrap();
    // Found, but only as far as its name: nothing may be imported to look for it.
    let fake = Path::new(&site).join("numpy");
    fs::create_dir(&fake).unwrap();
    fs::write(fake.join("__init__.py"), "raise SystemExit(9)").unwrap();

    let by_directory = Environment::from_python(&venv).unwrap();
    let by_interpreter = Environment::from_python(&venv.join("bin/python")).unwrap();
    assert_eq!(by_directory.python(), by_interpreter.python());
    assert_eq!(
        by_directory.read_only_paths(),
        by_interpreter.read_only_paths()
    );
    assert_eq!(by_directory.preload(), ["numpy"]);
    for needed in [&venv, &project] {
        assert!(
            by_directory.read_only_paths().contains(needed),
            "{} is not among {:?}",
            needed.display(),
            by_directory.read_only_paths()
        );
    }

    // What it said is kept, and not believed once a package more is there.
    assert_eq!(Environment::from_python(&venv).unwrap(), by_directory);
    let another = Path::new(&site).join("pandas");
    fs::create_dir(&another).unwrap();
    fs::write(another.join("__init__.py"), "").unwrap();
    let changed = Environment::from_python(&venv).unwrap();
    assert_eq!(changed.preload(), ["numpy", "pandas"]);
}

/// ENV-3, ENV-4: the default environment imports the common libraries and draws Chinese in plots.
#[test]
fn the_default_environment_is_complete() {
    let store = EnvironmentStore::open_default().unwrap();
    let default = store
        .load(EnvironmentSpec::DEFAULT_NAME)
        .unwrap_or_else(|error| panic!("this test uses the default environment: {error}"));
    for package in default.packages() {
        assert!(!package.hashes.is_empty(), "{} is not locked", package.name);
    }
    let Some(font) = default.fonts().first() else {
        panic!("the default environment has no font that draws Chinese");
    };

    let scratch = tempfile::tempdir().unwrap();
    // A glyph that the font lacks is a warning of matplotlib, and warnings are errors here.
    let code = r#"
import sys, warnings
warnings.simplefilter("error")
import numpy, pandas, scipy, sklearn, networkx, pydantic, requests, PIL, openpyxl
import matplotlib
matplotlib.use("agg")
from matplotlib import font_manager, pyplot
font_manager.fontManager.addfont(sys.argv[1])
name = font_manager.FontProperties(fname=sys.argv[1]).get_name()
pyplot.rcParams["font.family"] = ["DejaVu Sans", name]
figure, axes = pyplot.subplots()
axes.plot([-1, 0, 1], label="销售额（万元）")
axes.set_title("北京市地铁站点名称、应急响应、景点")
axes.legend()
figure.savefig("plot.png")
"#;
    succeed(
        Command::new(default.python())
            .args(["-I", "-c", code])
            .arg(font)
            .env("MPLCONFIGDIR", scratch.path())
            .current_dir(scratch.path()),
    );
    assert!(scratch.path().join("plot.png").exists());

    // Seen as any other venv, it is the same but for the lock.
    let seen = Environment::from_python(default.python()).unwrap();
    assert_eq!(seen.fonts(), default.fonts());
    assert_eq!(seen.preload(), default.preload());
    assert_eq!(seen.read_only_paths(), default.read_only_paths());
    assert_eq!(seen.version(), default.version());
}
