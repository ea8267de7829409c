//! Notebooks as people write them, cell by cell in a session and in a kernel of `IPython` with the same
//! packages. docs/ipython.md lists what differs.
//!
//! `BELLJAR_JUPYTER` is the Python of both: `.ci/run` makes it.

use std::fs;
use std::process::Command;

use belljar_sandbox::protocol::{Event, Outcome, redrawn};
use belljar_sandbox::{Cell, Engine, Environment, Session};
use serde_json::{Value, json};

const JUPYTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/jupyter.py");
const NOTEBOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/notebooks");

/// What a reader sees below a cell.
fn seen(outcome: &Outcome, asked: &[Value]) -> Value {
    let shown: Vec<&str> = outcome
        .displays
        .iter()
        .filter_map(|one| one.text())
        .collect();
    let images = outcome.displays.iter();
    let images = images.filter(|one| one.get("image/png").is_some()).count();
    let error = outcome.exception.as_ref().map(|error| error.name.as_str());
    json!({
        "stdout": redrawn(&outcome.stdout.text),
        "stderr": redrawn(&outcome.stderr.text),
        "shown": shown,
        "images": images,
        "error": error,
        "asked": asked,
    })
}

/// Runs a cell, and answers its questions with the lines in its metadata.
async fn run(session: &Session, code: String, answers: &Value) -> Value {
    let answers = answers.as_array().map_or(&[][..], Vec::as_slice);
    let mut lines = answers.iter();
    let mut running = session.run(Cell {
        installs: true,
        input: !answers.is_empty(),
        ..Cell::from(code)
    });
    let mut asked = Vec::new();
    loop {
        match running.next().await.unwrap().unwrap() {
            Event::InputRequested {
                call,
                prompt,
                password,
            } => {
                asked.push(json!([prompt, password]));
                let line = lines.next().and_then(Value::as_str).unwrap();
                let answered = session.answer_input(call, Some(line.to_owned()));
                answered.await.unwrap();
            }
            Event::Outcome(outcome) => return seen(&outcome, &asked),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_notebooks_print_what_they_print_in_a_kernel() {
    let python = std::env::var("BELLJAR_JUPYTER")
        .expect("BELLJAR_JUPYTER names a Python with nbclient and ipykernel; .ci/run makes one");
    let environment = Environment::from_python(python.as_ref()).unwrap();
    let engine = Engine::builder(environment).build();
    let mut paths: Vec<_> = fs::read_dir(NOTEBOOKS)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut results = serde_json::Map::new();
    for path in &paths {
        let notebook: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let session = engine.session().await.unwrap();
        let mut cells = Vec::new();
        for cell in notebook["cells"].as_array().unwrap() {
            if cell["cell_type"] == "code" {
                let lines = cell["source"].as_array().unwrap().iter();
                let code: String = lines.filter_map(Value::as_str).collect();
                cells.push(run(&session, code, &cell["metadata"]["answers"]).await);
            }
        }
        results.insert(path.display().to_string(), cells.into());
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("results.json");
    fs::write(&file, Value::from(results).to_string()).unwrap();
    let compared = Command::new(&python)
        .args([JUPYTER, "corpus"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compared.stdout);
    assert!(
        compared.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&compared.stderr)
    );
    assert!(said.starts_with("12 notebooks, "), "{said}");
}
