//! `belljar runs reproduce`: values of a run, computed again.

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{belljar, code, run};
use crate::support::{Ended, Scratch};

/// A run with these cells and this answer, and what its reproduction tells.
fn reproduced(cells: &[&str], answer: &str, arguments: &[&str], again: &[&str]) -> Ended {
    let scratch = Scratch::new();
    scratch.write("numbers.txt", "20\n22\n");
    let mut script: Vec<Scripted> = cells.iter().map(|cell| code(cell)).collect();
    script.push(Scripted::text(format!("FINAL: {answer}")));
    let model = ScriptedModel::start(script).unwrap();
    let task = [arguments, &["--put", "numbers.txt", "Look at the numbers."]].concat();
    run(&scratch, &model, &task).exits_with(0);
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let before = belljar(&scratch, &["runs", "show", "--json", id]).stdout;
    let again = [&["runs", "reproduce", "--env", "bare", id], again].concat();
    let ended = belljar(&scratch, &again);
    // The run itself is as it was.
    assert_eq!(
        belljar(&scratch, &["runs", "show", "--json", id]).stdout,
        before
    );
    ended
}

const SUM: &str = "n = [int(line) for line in open('numbers.txt')]\nprint('sum', sum(n))\n\
                   written = open('sum.txt', 'w').write(str(sum(n)))";

#[test]
fn values_files_and_cells_of_a_run_are_identical() {
    let ended = reproduced(
        &[SUM, "print('double', 2 * sum(n))"],
        "The sum is 42, doubled 84, in sum.txt.",
        &[],
        &[],
    );
    let ended = ended.exits_with(0);
    let lines: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let expected = [
        ["42", "identical", "cell", "1"],
        ["84", "identical", "cell", "2"],
    ];
    assert_eq!(lines[..2], expected);
    assert_eq!(lines[2..], [["sum.txt", "identical", "file"]]);
    let summary = "values: 2 of 2 identical, files: 1 of 1 identical, cells: 2 of 2 identical";
    assert!(ended.stderr.contains(summary), "{}", ended.stderr);
}

#[test]
fn a_value_that_chance_made_is_not_deterministic() {
    let chance = "import random\nn = random.randrange(10**12, 10**13)\nprint('seen', n)";
    let scratch = Scratch::new();
    let model = ScriptedModel::start([code(chance), code("print('sum', 6 * 7)")]).unwrap();
    // The answer names a value of a cell, which the script can't know: the run ends without one.
    run(&scratch, &model, &["--steps", "2", "Draw."]);
    let listed = belljar(&scratch, &["runs", "list"]).exits_with(0).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let again = belljar(
        &scratch,
        &["runs", "reproduce", "--env", "bare", "--json", id],
    );
    let again: serde_json::Value = serde_json::from_str(&again.exits_with(0).stdout).unwrap();
    let verdicts: Vec<_> = again["cells"].as_array().unwrap().iter().collect();
    assert_eq!(verdicts[0]["verdict"], "not_deterministic");
    assert_eq!(verdicts[1]["verdict"], "identical");
}

#[test]
fn a_value_from_elsewhere_has_changed() {
    let price = "import os\nn = [int(line) for line in open('numbers.txt')]\n\
                 print('price', int(os.environ['PRICE']) * sum(n))";
    let ended = reproduced(
        &[price],
        "The price is 1764.",
        &["--var", "PRICE=42"],
        &["--var", "PRICE=40"],
    );
    let ended = ended.exits_with(1);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert_eq!(words, ["1764", "changed", "cell", "1", "price", "1680"]);
}

#[test]
fn a_run_that_does_not_exist_is_named() {
    let scratch = Scratch::new();
    let ended = belljar(&scratch, &["runs", "reproduce", "nothing"]);
    let ended = ended.exits_with(2);
    assert!(ended.stderr.contains("nothing"), "{}", ended.stderr);
}
