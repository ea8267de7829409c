//! Runs as notebooks, scripts and pages; their events; and what a replay tells.
//!
//! `BELLJAR_JUPYTER` is a Python that has nbclient, ipykernel and what the notebooks import, in the
//! versions of the environment `default`; `.ci/run` makes one.

use std::fs;
use std::process::{Command, Output};

use belljar_agent::RunEvent;
use belljar_journal::{Journal, NewEvent};
use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{belljar, code, run_in};
use crate::support::{Scratch, bare, default_environment};

/// The result of a run in a directory of its own.
struct Done {
    scratch: Scratch,
    id: String,
}

impl Done {
    /// A run whose model writes these cells and then answers.
    fn new(environment: &str, cells: &[&str], arguments: &[&str], files: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let mut all = arguments.to_vec();
        for (name, contents) in files {
            scratch.write(name, contents);
            all.extend(["--put", name]);
        }
        let mut script: Vec<Scripted> = cells.iter().map(|cell| code(cell)).collect();
        script.push(Scripted::text("FINAL: done"));
        let model = ScriptedModel::start(script).unwrap();
        run_in(environment, &scratch, &model, &all).exits_with(0);
        let listed = belljar(&scratch, &["runs", "list"]).exits_with(0).stdout;
        let id = listed.split_whitespace().next().unwrap().to_owned();
        Self { scratch, id }
    }

    fn export(&self, format: &str) -> String {
        let exported = belljar(&self.scratch, &["runs", "export", format, &self.id]);
        exported.exits_with(0).stdout
    }

    /// An empty directory, to run what was exported in.
    fn elsewhere(&self) -> Command {
        let directory = self.scratch.path("elsewhere");
        fs::create_dir_all(&directory).unwrap();
        let python = std::env::var("BELLJAR_JUPYTER").expect(
            "BELLJAR_JUPYTER names a Python with nbclient and ipykernel; .ci/run makes one",
        );
        let mut command = Command::new(python);
        command.current_dir(directory);
        command
    }

    /// Runs the exported script in a plain Python; what it printed.
    #[track_caller]
    fn runs_as_a_script(&self) -> String {
        let script = self.export("--py");
        succeeds(self.elsewhere().args(["-c", &script]))
    }

    /// Runs the exported notebook in a Jupyter kernel, and compares.
    #[track_caller]
    fn reruns(&self, cells: usize) {
        let notebook = self.export("--ipynb");
        let mut command = self.elsewhere();
        fs::write(self.scratch.path("run.ipynb"), notebook).unwrap();
        command.args([JUPYTER, "notebook", "../run.ipynb"]);
        let said = succeeds(&mut command);
        assert_eq!(said, format!("{cells} cells, the same\n"));
        // And its events are as documented.
        let events = belljar(&self.scratch, &["runs", "show", "--json", &self.id]);
        fs::write(self.scratch.path("events"), events.exits_with(0).stdout).unwrap();
        let mut command = self.elsewhere();
        command.args([JUPYTER, "events", SCHEMA, "../events"]);
        succeeds(&mut command);
    }
}

const JUPYTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/jupyter.py");
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.schema.json");

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    assert!(
        status.success(),
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8(stdout).unwrap()
}

const SALES: &str = "product,amount,price\npen,3,1.5\nbook,2,12.25\npen,7,1.4\nlamp,1,40\n";

#[test]
fn a_run_on_a_table_reruns_as_a_notebook() {
    let done = Done::new(
        default_environment(),
        &[
            "import pandas as pd\nsales = pd.read_csv('sales.csv')\nsales['total'] = sales.amount * sales.price\nsales",
            "by = sales.groupby('product')['total'].sum().sort_values()\nprint(by)\nby.to_csv('by.csv')\nby.idxmax()",
        ],
        &["Sum the sales by product."],
        &[("sales.csv", SALES)],
    );
    done.reruns(3);
}

#[test]
fn a_run_with_a_figure_reruns_as_a_notebook() {
    let done = Done::new(
        default_environment(),
        &[
            "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\n_ = axes.plot([1, 4, 9])\nplt.show()\nprint('drawn')",
            "import numpy as np\nnp.arange(6).reshape(2, 3)",
        ],
        &["Draw squares."],
        &[],
    );
    done.reruns(2);
    let page = done.export("--html");
    assert!(page.contains("<img alt=\"\" src=\"data:image/png;base64,iVBOR"));
}

/// What a failed cell did before it failed is there for the cells after it.
#[test]
fn a_run_that_corrects_an_error_reruns_as_a_notebook_and_as_a_script() {
    let done = Done::new(
        bare(),
        &[
            "total = 40\nprint('before')\ntotal + '2'",
            "total = total + int('2')\nprint('total', total)",
            "if total\n    print(total)",
            "raise SystemExit(3)",
            "import sys\nsys.exit()",
            "total",
        ],
        &["Add two to forty."],
        &[],
    );
    done.reruns(6);
    assert_eq!(done.runs_as_a_script(), "before\ntotal 42\n");
}

#[test]
fn a_run_in_chinese_reruns_as_a_notebook_and_as_a_script() {
    let done = Done::new(
        bare(),
        &[
            "行 = open('数据.txt', encoding='utf-8').read().split()\nprint('共', len(行), '个：', *行)",
            "{词: len(词) for 词 in 行}",
        ],
        &["--language", "zh", "数一数词语。\r有几个？"],
        &[("数据.txt", "苹果 香蕉 “引号”\n")],
    );
    done.reruns(3);
    assert_eq!(done.runs_as_a_script(), "共 3 个： 苹果 香蕉 “引号”\n");
}

#[test]
fn a_run_with_functions_and_classes_reruns_as_a_notebook_and_as_a_script() {
    let done = Done::new(
        bare(),
        &[
            "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n    y: int\n\n    def __add__(self, other):\n        return Point(self.x + other.x, self.y + other.y)",
            "def total(points):\n    return sum(points, Point(0, 0))\n\nprint(total([Point(1, 2), Point(3, 4)]))",
            "display(Point(5, 6))\ntext = '''line one\n    line two'''\nprint(text)",
            "[Point(n, n) for n in range(3)]",
        ],
        &["Add points."],
        &[],
    );
    done.reruns(4);
    assert_eq!(
        done.runs_as_a_script(),
        "Point(x=4, y=6)\nPoint(x=5, y=6)\nline one\n    line two\n"
    );
}

/// What was taken back is not in the notebook; what was stopped is, as text.
#[test]
fn a_run_that_was_taken_back_reruns_as_a_notebook() {
    let again = "count = count + 1\nprint('looking')";
    let done = Done::new(
        bare(),
        &[
            "count = 0",
            again,
            again,
            again,
            "while True: pass",
            "count",
        ],
        &["--timeout", "1", "Count."],
        &[],
    );
    let shown = belljar(&done.scratch, &["runs", "show", "--json", &done.id]);
    assert!(
        shown.stdout.contains("\"kind\":\"rolled_back\""),
        "{shown:#?}"
    );
    done.reruns(3);
    done.runs_as_a_script();
}

/// What a reader needs to check a run is in its page, and a change of it is noticed.
#[test]
fn a_page_has_a_record_and_is_signed() {
    let done = Done::new(
        bare(),
        &["print(len(open('sales.csv').read()))\nopen('copy.txt', 'w').write('copy')"],
        &["Count."],
        &[("sales.csv", SALES)],
    );
    let page = done.export("--html");
    let sha = Command::new("sha256sum")
        .arg(done.scratch.path("sales.csv"))
        .output()
        .unwrap();
    let sha = String::from_utf8(sha.stdout).unwrap();
    let sha = sha.split_whitespace().next().unwrap();
    for row in [
        format!("<th>Run</th><td>{}</td>", done.id),
        "<th>Isolation</th><td>full</td>".into(),
        format!("sales.csv, {} B, SHA-256 {sha}", SALES.len()),
        "<th>Files of the run</th><td>copy.txt, 4 B</td>".into(),
        "<th>Environment</th><td>CPython 3.".into(),
        " GMT – ".into(),
    ] {
        assert!(page.contains(&row), "no {row:?} in {page}");
    }
    let (_, end) = page.rsplit_once("ed25519 ").unwrap();
    let key = end.split_whitespace().next().unwrap();
    assert!(
        page.contains(&format!("Signed with the key {key}.")),
        "{page}"
    );

    done.scratch.write("page.html", &page);
    let verify = |arguments: &[&str]| {
        belljar(
            &done.scratch,
            &[&["runs", "verify", "page.html"], arguments].concat(),
        )
    };
    let whole = verify(&[]).exits_with(0);
    let whole = whole.prints("the page is as it was signed\n");
    assert!(whole.stderr.contains(key), "{whole:#?}");
    let whole = verify(&["--key", key]).exits_with(0);
    assert_eq!(whole.stderr, "");
    let other = verify(&["--key", "b3RoZXI="]).exits_with(2);
    assert!(other.stderr.contains("with another key"), "{other:#?}");

    let changed = page.replace("Count.", "Count!");
    assert_ne!(changed, page);
    done.scratch.write("page.html", &changed);
    let changed = verify(&["--key", key]).exits_with(2);
    assert!(
        changed.stderr.contains("the file was changed"),
        "{changed:#?}"
    );
    done.scratch.write("page.html", "<p>no page of ours</p>");
    let unsigned = verify(&[]).exits_with(2);
    assert!(
        unsigned.stderr.contains("does not end with a signature"),
        "{unsigned:#?}"
    );
    // One key for all pages.
    assert!(done.export("--html").contains(key));
}

#[test]
fn a_page_shows_hostile_text_as_text() {
    let done = Done::new(
        bare(),
        &[
            "print('</pre><script>alert(1)</script>')",
            "class Odd:\n    def _repr_html_(self): return '<script>alert(2)</script>'\n    def _repr_mimebundle_(self, **_): return {'image/png\" onerror=\"alert(3)': 'x'}\n    def __repr__(self): return '<script>alert(6)</script>'\nOdd()",
            "raise ValueError('<script>alert(4)</script>')",
            "import os\nprint('ok', bool(os.listdir()))",
        ],
        &["</title><script>alert(0)</script>"],
        &[("<img src=x onerror=alert(5)>.txt", "x")],
    );
    let page = done.export("--html");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(4)"), "{page}");
    // All tags are ours, and nothing is loaded from elsewhere.
    for tag in page.split('<').skip(1) {
        let name: String = tag.chars().take_while(|c| *c != '>').collect();
        let ours = [
            "!doctype html",
            "title",
            "style",
            "h1",
            "h2",
            "p",
            "pre",
            "ul",
            "li",
            "code",
            "a",
            "span",
            "table",
            "tr",
            "th",
            "td",
            "br",
        ];
        let attributes = [
            "!-- belljar-signature ed25519 ",
            "meta ",
            "img alt=\"\" src=\"data:",
            "h2 id=\"step-",
            "a href=\"#step-",
            "span title=\"",
            "span class=\"unseen\" title=\"",
        ];
        assert!(
            ours.contains(&name.trim_start_matches('/'))
                || attributes.iter().any(|begin| name.starts_with(begin)),
            "<{name}> in {page}"
        );
    }
    done.reruns(5);
}

/// A run whose code or prompt would ask otherwise now: its journal is copied with another task.
#[test]
fn a_replay_tells_the_first_difference() {
    let done = Done::new(bare(), &["print(6 * 7)"], &["Six times seven?"], &[]);
    belljar(&done.scratch, &["runs", "replay", &done.id])
        .exits_with(0)
        .prints("2 requests, all identical\n")
        .says_nothing();
    let (from, to) = (done.scratch.path("runs"), Scratch::new());
    let copy = to.path("runs");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let id = done.id.parse().unwrap();
        let entries = Journal::open(&from).await.unwrap();
        let entries = entries.read(&id, 0, 100).await.unwrap();
        let changed = entries.iter().map(|entry| {
            let mut event: RunEvent = entry.decode().unwrap();
            if let RunEvent::Started(start) = &mut event {
                start.task = "Six times eight?".into();
                assert_eq!(start.prompts, Some(start.language.prompts_version()));
                start.prompts = Some("another".into());
            }
            NewEvent::new(event.kind(), entry.version, entry.at, &event).unwrap()
        });
        let changed: Vec<NewEvent> = changed.collect();
        let journal = Journal::open(&copy).await.unwrap();
        journal.append(&id, 0, &changed).await.unwrap();
    });
    succeeds(
        Command::new("cp")
            .arg("-r")
            .arg(from.join("blobs"))
            .arg(&copy),
    );
    let ended = belljar(&to, &["runs", "replay", &done.id]).exits_with(1);
    let ended = ended.says("[the run was recorded with other prompts (another, now ");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let [place, then, now] = lines[..] else {
        panic!("{ended:#?}")
    };
    assert!(place.starts_with("step 1 differs at byte "), "{ended:#?}");
    assert!(
        then.contains("recorded: ") && then.contains("Six times seven?"),
        "{ended:#?}"
    );
    assert!(
        now.contains("now:  ") && now.contains("Six times eight?"),
        "{ended:#?}"
    );
}
