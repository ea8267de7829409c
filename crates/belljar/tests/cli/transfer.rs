//! `--put` and `--out`: the same words in `exec`, `repl` and `run`.

use std::fs::{self, File};

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{code, run};
use crate::support::{Scratch, bare};

const COPY: &str = "import shutil; _ = shutil.copytree('data', 'copy')";

/// A directory with two files, one of them deeper.
fn with_data() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("data/deep")).unwrap();
    scratch.write("data/a.txt", "a");
    scratch.write("data/deep/b.txt", "b");
    scratch
}

#[test]
fn exec_takes_a_directory_in_and_out() {
    let scratch = with_data();
    let ended = scratch.exec(&["--put", "data", "--out", "results", COPY]);
    ended.exits_with(0);
    assert_eq!(scratch.read("results/copy/a.txt"), "a");
    assert_eq!(scratch.read("results/copy/deep/b.txt"), "b");
}

#[test]
fn repl_takes_a_directory_in_and_out() {
    let scratch = with_data();
    let repl = ["repl", "--env", bare(), "--put", "data", "--out", "results"];
    let input = format!("{COPY}\nopen('gone', 'w').close()\nimport os; os.remove('gone')\n");
    scratch.feed(&input, &repl).exits_with(0).prints("");
    assert_eq!(scratch.read("results/copy/deep/b.txt"), "b");
    // By commands, too.
    let input = "/put data mine\nopen('mine/deep/b.txt').read()\n/get mine back\n";
    let ended = scratch.feed(input, &["repl", "--env", bare()]);
    ended.exits_with(0).prints("'b'\n");
    assert_eq!(scratch.read("back/a.txt"), "a");
    assert_eq!(scratch.read("back/deep/b.txt"), "b");
}

#[test]
fn run_takes_a_directory_in_and_files_out() {
    let scratch = with_data();
    let model = ScriptedModel::start([
        code("print(open('data/deep/b.txt').read())\nn = open('made.txt', 'w').write('made')"),
        Scripted::text("FINAL: b"),
    ])
    .unwrap();
    let arguments = ["--put", "data", "--out", "results", "Read the file."];
    run(&scratch, &model, &arguments)
        .exits_with(0)
        .prints("b\n");
    assert_eq!(scratch.read("results/made.txt"), "made");
    // Not over what is there.
    scratch.write("results/made.txt", "mine");
    let model = ScriptedModel::start([
        code("n = open('made.txt', 'w').write('made')\nprint(n)"),
        Scripted::text("FINAL: 4"),
    ])
    .unwrap();
    let ended = run(&scratch, &model, &["--out", "results", "Write."]).exits_with(2);
    ended.says("results/made.txt").says("--overwrite");
    assert_eq!(scratch.read("results/made.txt"), "mine");
}

#[test]
fn out_replaces_nothing_unless_asked() {
    let scratch = Scratch::new();
    scratch.write("old.txt", "mine");
    let make =
        "for name in ['old.txt', 'new.txt']:\n    with open(name, 'w') as f: f.write('made')";
    let ended = scratch.exec(&["--out", ".", make]).exits_with(2);
    ended
        .says("1 files exist and were not replaced, such as `./old.txt`")
        .says("hint: use another directory, or add `--overwrite`");
    assert_eq!(scratch.read("old.txt"), "mine");
    assert_eq!(scratch.read("new.txt"), "made");
    let replace = ["--out", ".", "--overwrite", make];
    scratch.exec(&replace).exits_with(0);
    assert_eq!(scratch.read("old.txt"), "made");
    // A link is replaced, not followed.
    fs::remove_file(scratch.path("old.txt")).unwrap();
    scratch.write("elsewhere", "mine");
    std::os::unix::fs::symlink("elsewhere", scratch.path("old.txt")).unwrap();
    scratch.exec(&replace).exits_with(0);
    assert_eq!(scratch.read("elsewhere"), "mine");
    assert_eq!(scratch.read("old.txt"), "made");
}

#[test]
fn what_can_not_be_put_is_told_before_anything_starts() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--put", "missing.csv", "1"]).exits_with(2);
    ended
        .says("`--put missing.csv`")
        .says("hint: check the path");
    let ended = scratch.exec(&["--put", "/dev/null", "1"]).exits_with(2);
    ended.says("neither a regular file nor a directory");
}

/// More than was once held in memory.
#[test]
fn exec_takes_a_large_file_in_and_out() {
    let scratch = Scratch::new();
    let large = File::create(scratch.path("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    let code = "import os; print(os.path.getsize('large') >> 20); os.rename('large', 'renamed')";
    let arguments = ["--memory", "1G", "--put", "large", "--out", "out", code];
    scratch.exec(&arguments).exits_with(0).prints("300\n");
    let size = fs::metadata(scratch.path("out/renamed")).unwrap().len();
    assert_eq!(size, 300 << 20);
}

/// The same for a run, which keeps its files.
#[test]
fn run_takes_a_large_file_in_and_out() {
    let scratch = Scratch::new();
    let large = File::create(scratch.path("large")).unwrap();
    large.set_len(300 << 20).unwrap();
    let model = ScriptedModel::start([
        code(
            "import os, shutil\nshutil.move('large', 'renamed')\nprint(os.path.getsize('renamed') >> 20)",
        ),
        Scripted::text("FINAL: 300"),
    ])
    .unwrap();
    let task = "How many MiB does the file have? Rename it.";
    let arguments = ["--memory", "1G", "--put", "large", "--out", "out", task];
    run(&scratch, &model, &arguments)
        .exits_with(0)
        .prints("300\n");
    let size = fs::metadata(scratch.path("out/renamed")).unwrap().len();
    assert_eq!(size, 300 << 20);
}

#[test]
fn a_file_name_is_not_taken_for_code() {
    let scratch = Scratch::new();
    scratch.write("analysis.py", "print(6 * 7)");
    let ended = scratch.exec(&["analysis.py"]).exits_with(2).prints("");
    ended
        .says("`analysis.py` looks like a file")
        .says("hint: did you mean `--file analysis.py`?");
    scratch
        .exec(&["--file", "analysis.py"])
        .exits_with(0)
        .prints("42\n");
}

#[test]
fn memory_has_units() {
    let scratch = Scratch::new();
    let ended = scratch.exec(&["--memory", "256M", "x = bytearray(400 << 20)"]);
    assert_ne!(ended.status.code(), Some(0), "{ended:#?}");
    scratch
        .exec(&["--memory", "1G", "x = bytearray(400 << 20); len(x) >> 20"])
        .exits_with(0)
        .prints("400\n");
    let ended = scratch.exec(&["--memory", "2K", "1"]).exits_with(2);
    ended.says("from 64M to 1T");
}
