//! `belljar runs list` and `delete`, `belljar run --continue`, and commands that only look.

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{belljar, code, run};
use crate::support::{BELLJAR, Ended, Scratch};

/// A run with one cell; its id.
fn done(scratch: &Scratch, cell: &str, arguments: &[&str]) -> String {
    let model = ScriptedModel::start([code(cell), Scripted::text("FINAL: done")]).unwrap();
    run(scratch, &model, arguments).exits_with(0);
    first(&belljar(scratch, &["runs", "list"]))
}

/// The newest run of a list.
fn first(listed: &Ended) -> String {
    listed.stdout.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn runs_are_listed_with_dates_page_by_page() {
    let scratch = Scratch::new();
    let older = done(&scratch, "print(1)", &["The older one."]);
    let newer = done(&scratch, "print(2)", &["The newer one."]);
    let page = belljar(&scratch, &["runs", "list", "--limit", "1"]).exits_with(0);
    let page = page.says("run").says("started").says("state").says("task");
    let page = page.says(&format!(
        "[earlier runs: `belljar runs list --before {newer}`]"
    ));
    let columns: Vec<&str> = page.stdout.split("  ").map(str::trim).collect();
    let columns: Vec<&str> = columns.into_iter().filter(|c| !c.is_empty()).collect();
    let [id, started, state, steps, cost, task] = columns[..] else {
        panic!("{page:#?}");
    };
    assert_eq!(
        (id, state, steps, cost, task),
        (newer.as_str(), "answered", "2", "-", "The newer one.")
    );
    let is_date = |part: &str, length| part.len() == length && part.starts_with("20");
    let (day, time) = started.split_once('T').unwrap();
    assert!(is_date(day, 10) && time.ends_with('Z'), "{started}");
    let next = belljar(&scratch, &["runs", "list", "--before", &newer]).exits_with(0);
    assert_eq!(first(&next), older);
    assert!(!next.stderr.contains("earlier runs"), "{next:#?}");
}

#[test]
fn a_deleted_run_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let kept = done(&scratch, "print('kept')", &["Keep."]);
    scratch.write("secret.txt", "the secret word");
    let arguments = ["--put", "secret.txt", "Delete me."];
    let id = done(&scratch, "open('a.txt', 'w').close()\nprint(1)", &arguments);
    let ended = belljar(&scratch, &["runs", "delete", &id]).exits_with(0);
    ended.prints("").says(&format!("[run {id} deleted"));
    belljar(&scratch, &["runs", "show", &id])
        .exits_with(2)
        .says("no such run");
    assert_eq!(first(&belljar(&scratch, &["runs", "list"])), kept);
    belljar(&scratch, &["runs", "replay", &kept]).exits_with(0);
    for entry in walk(&scratch.path("runs")) {
        let contents = std::fs::read(&entry).unwrap();
        let text = String::from_utf8_lossy(&contents).into_owned();
        assert!(!text.contains("the secret word"), "{}", entry.display());
    }
    assert!(!scratch.path("runs/runs").join(&id).exists());
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().path());
    let below = |path: std::path::PathBuf| {
        if path.is_dir() {
            walk(&path)
        } else {
            vec![path]
        }
    };
    entries.flat_map(below).collect()
}

#[test]
fn a_run_continues_another() {
    let scratch = Scratch::new();
    scratch.write("in.txt", "20");
    let cell = "n = int(open('in.txt').read())\nprint(n)";
    let id = done(&scratch, cell, &["--put", "in.txt", "Read the number."]);
    let model = ScriptedModel::start([
        code("print('got', n + 22, open('in.txt').read())"),
        Scripted::text("FINAL: 42"),
    ])
    .unwrap();
    let ended = run(&scratch, &model, &["--continue", &id[..12], "Add 22."]);
    ended.exits_with(0).prints("42\n").says("got 42 20");
    let ended = run(&scratch, &model, &["--continue", "nothing", "Add."]);
    ended.exits_with(2).says("no such run: `nothing`");
}

/// Commands that only look make nothing, not even a directory.
#[test]
fn who_only_looks_makes_nothing() {
    let scratch = Scratch::new();
    let home = scratch.path("home");
    let look = |arguments: &[&str]| {
        let mut command = scratch.prepare(BELLJAR);
        command
            .args(arguments)
            .env("HOME", &home)
            .env("BELLJAR_DATA_DIR", home.join("data"))
            .env_remove("BELLJAR_RUNS_DIR");
        scratch.finish(command.spawn().unwrap())
    };
    for (arguments, exit, words) in [
        (&["runs", "list"][..], 0, "[no runs in "),
        (&["runs", "show", "x"], 2, "no such run: `x`"),
        (&["runs", "export", "--py", "x"], 2, "no such run: `x`"),
        (&["runs", "replay", "x"], 2, "no such run: `x`"),
        (&["runs", "delete", "x"], 2, "no such run: `x`"),
        (&["keys", "list"], 0, "[no keys and no tenants in "),
        (
            &["keys", "revoke", "x"],
            2,
            "no valid key has the prefix `x`",
        ),
        (&["tenants", "list"], 0, "[no keys and no tenants in "),
        (&["tenants", "show", "x"], 2, "no such tenant: `x`"),
        (&["tenants", "audit"], 0, "[no keys and no tenants in "),
        (&["env", "list"], 0, "No environments yet"),
        (&["config"], 0, ""),
    ] {
        let ended = look(arguments).exits_with(exit).says(words);
        assert!(!home.exists(), "{arguments:?}: {ended:#?}");
    }
}
