//! Snapshots from one program to the next.

use std::fs;

use crate::support::{Scratch, bare, default_environment};

#[test]
fn exec_goes_on_from_a_snapshot() {
    let scratch = Scratch::new();
    let code = "x = {'a': [1]}\ny = x['a']\nopen('note.txt', 'w').write('hi')\nimport threading\nlock = threading.Lock()";
    let ended = scratch.exec(&["--snapshot-out", "a.snapshot", code]);
    let ended = ended.exits_with(0).says("[not saved: lock (TypeError: ");
    assert_eq!(ended.stderr.matches("not saved").count(), 1, "{ended:#?}");
    let ended = scratch.exec(&[
        "--snapshot-in",
        "a.snapshot",
        "--snapshot-out",
        "b.snapshot",
        "y.append(2); print(x, open('note.txt').read(), 'lock' in globals()); 1 / 0",
    ]);
    let ended = ended.exits_with(1).prints("{'a': [1, 2]} hi False\n");
    let ended = ended.says("[not restored: lock (not saved: TypeError: ");
    ended.says("<cell 2>");
    // Also after a failure; and the first one is as it was.
    let ended = scratch.exec(&["--snapshot-in", "b.snapshot", "print(y)"]);
    ended.exits_with(0).prints("[1, 2]\n").says_nothing();
    let ended = scratch.exec(&["--snapshot-in", "a.snapshot", "print(y)"]);
    ended.exits_with(0).prints("[1]\n");
}

#[test]
fn functions_and_classes_go_from_program_to_program() {
    default_environment();
    let scratch = Scratch::new();
    let code = "class Box:\n    def __init__(self, n): self.n = n\n    def twice(self): return double(self.n)\ndef double(n): return n * 2\nbox = Box(21)";
    let ended = scratch.belljar(&["exec", "--snapshot-out", "a.snapshot", code]);
    ended.exits_with(0).says_nothing();
    let ended = scratch.belljar(&["exec", "--snapshot-in", "a.snapshot", "box.twice()"]);
    ended.exits_with(0).prints("42\n").says_nothing();
}

#[test]
fn snapshots_that_are_none_are_refused() {
    let scratch = Scratch::new();
    let refused = |name: &str| scratch.exec(&["--snapshot-in", name, "1"]).exits_with(2);
    refused("gone.snapshot").says("No such file");
    scratch.write("text.snapshot", "hello");
    refused("text.snapshot").says("this file is not a snapshot");
    let made = scratch.exec(&["--snapshot-out", "a.snapshot", "x = 1"]);
    made.exits_with(0).says_nothing();
    let mut bytes = fs::read(scratch.path("a.snapshot")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(scratch.path("a.snapshot"), bytes).unwrap();
    refused("a.snapshot").says("the snapshot is damaged");
    let ended = scratch.exec(&["--snapshot-out", "no/such/place", "1"]);
    ended.exits_with(2).says("`--snapshot-out no/such/place");
}

#[test]
fn repl_saves_and_loads() {
    let scratch = Scratch::new();
    let input = "x = 5\nlock = __import__('threading').Lock()\n/save 'my snapshot'\nx = 6\n/load gone\nx\n\
        /load 'my snapshot'\nx, 'lock' in globals()\nx.y\n";
    let ended = scratch.feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(1).prints("6\n(5, False)\n");
    let ended = ended.says("[not saved: lock (");
    let ended = ended.says("[my snapshot: names: 1, files: 0, ");
    let ended = ended
        .says("No such file")
        .says("restored names: 1, files: 0]");
    ended.says("<cell 4>");
}
