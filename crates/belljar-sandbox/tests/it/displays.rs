//! Rich outputs (ENV-4: plots without a display, Chinese text; C9: hostile representations).

use belljar_sandbox::protocol::{Event, Outcome};

use crate::support::{data_session, good, session};

fn mimes(outcome: &Outcome, index: usize) -> Vec<&str> {
    outcome.displays[index]
        .parts
        .iter()
        .map(|part| part.mime.as_str())
        .collect()
}

#[tokio::test]
async fn every_kind_of_representation() {
    let session = session().await;
    let code = "class Rich:\n\
        \x20   def __repr__(self): return 'plain'\n\
        \x20   def _repr_html_(self): return '<b>html</b>'\n\
        \x20   def _repr_svg_(self): return '<svg/>'\n\
        \x20   def _repr_png_(self): return b'\\x89PNG'\n\
        \x20   def _repr_json_(self): return {'a': [1, None]}\n\
        \x20   def _repr_latex_(self): return '$x$'\n\
        Rich()";
    let outcome = good(&session, code).await;
    let mimes = mimes(&outcome, 0);
    for mime in [
        "text/plain",
        "text/html",
        "image/svg+xml",
        "image/png",
        "application/json",
        "text/latex",
    ] {
        assert!(mimes.contains(&mime), "{mime} is not in {mimes:?}");
    }
    assert_eq!(
        outcome.displays[0].get("image/png").unwrap().data,
        b"\x89PNG"
    );
    let json = serde_json::to_value(&outcome).unwrap();
    assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome);
}

#[tokio::test]
async fn a_table_comes_as_html_and_data() {
    let session = data_session().await;
    let outcome = good(
        &session,
        "import pandas as pd\npd.DataFrame({'名称': ['甲', '乙'], 'n': [1.5, float('nan')]})",
    )
    .await;
    let table = outcome.displays[0]
        .get("application/vnd.belljar.table+json")
        .unwrap();
    let table: serde_json::Value = serde_json::from_slice(&table.data).unwrap();
    assert_eq!(table["total_rows"], 2);
    assert_eq!(table["columns"][0]["name"], "名称");
    assert_eq!(
        table["rows"],
        serde_json::json!([["甲", 1.5], ["乙", null]])
    );
    assert!(mimes(&outcome, 0).contains(&"text/html"));
}

/// ENV-4: figures appear without `plt.show()`, once, and Chinese is drawn without a missing glyph.
#[tokio::test]
async fn env_4_figures_and_chinese() {
    let session = data_session().await;
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('北京市地铁站点名称：应急响应、景点 −1')";
    let outcome = good(&session, code).await;
    let pictures: Vec<_> = outcome
        .displays
        .iter()
        .filter_map(|d| d.get("image/png"))
        .collect();
    assert_eq!(pictures.len(), 1, "{:?}", outcome.displays.len());
    assert!(pictures[0].data.starts_with(b"\x89PNG\r\n"));
    assert!(
        !outcome.stderr.text.contains("missing"),
        "{}",
        outcome.stderr.text
    );
    let outcome = good(
        &session,
        "fig, ax = plt.subplots()\nax.plot([3])\nplt.show()\nfig2 = plt.figure()\nfig2",
    )
    .await;
    assert_eq!(
        outcome
            .displays
            .iter()
            .filter(|d| d.get("image/png").is_some())
            .count(),
        2
    );
    assert!(
        !outcome.stderr.text.contains("Warning"),
        "{}",
        outcome.stderr.text
    );
}

/// C9: a representation can't hang, flood or break the session.
#[tokio::test]
async fn hostile_representations() {
    let session = session().await;
    let classes = "class Loop:\n    def __repr__(self):\n        while True: pass\n\
        class Huge:\n    def __repr__(self): return 'x' * 10**8\n\
        class Raises:\n    def __repr__(self): 1 / 0\n\
        class Wrong:\n    def __repr__(self): return 5\n";
    good(&session, classes).await;
    for (code, expected) in [
        ("Loop()", "longer than"),
        ("Raises()", "ZeroDivisionError"),
        ("Wrong()", "Wrong"),
    ] {
        let outcome = good(&session, code).await;
        let text = outcome.displays[0].text().unwrap();
        assert!(text.contains(expected), "{code}: {text}");
    }
    let outcome = good(&session, "Huge()").await;
    assert!(outcome.displays[0].text().unwrap().len() < 200_000);
    let outcome = good(&session, "for i in range(500): display(i)").await;
    assert!(outcome.displays.len() <= 100 && !outcome.notes.is_empty());
    good(&session, "1").await;
}

/// A display with an id is changed in place; the outcome has its last state, events have each one.
#[tokio::test]
async fn a_display_with_an_id_can_be_changed() {
    let session = session().await;
    let code = "handle = display('one', display_id=True)\ndisplay('other')\nhandle.update('two')\nhandle.update('three', metadata={'text/plain': {'a': 1}})\nprint(len(handle.display_id), repr(handle)[:26])";
    let mut run = session.run(code);
    let (mut events, mut outcome) = (Vec::new(), None);
    while let Some(event) = run.next().await {
        match event.unwrap() {
            Event::Display(display) => events.push(display),
            Event::Outcome(ended) => outcome = Some(*ended),
            _ => {}
        }
    }
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stdout.text, "32 <DisplayHandle display_id=\n");
    let told: Vec<_> = events
        .iter()
        .map(|one| (one.text().unwrap(), one.update))
        .collect();
    let expected = [
        ("'one'", false),
        ("'other'", false),
        ("'two'", true),
        ("'three'", true),
    ];
    assert_eq!(told, expected);
    assert!(events[0].id.is_some() && events[0].id == events[3].id && events[1].id.is_none());
    let kept: Vec<_> = outcome
        .displays
        .iter()
        .map(|one| (one.text().unwrap(), one.update))
        .collect();
    assert_eq!(kept, [("'three'", false), ("'other'", false)]);
    assert_eq!(outcome.displays[0].metadata["text/plain"]["a"], 1);
    // One of an earlier cell is not there any more: the change is shown, and says what it is.
    let outcome = good(&session, "handle.update('four')").await;
    assert_eq!(outcome.displays[0].text(), Some("'four'"));
    assert!(outcome.displays[0].update && outcome.displays[0].id == events[0].id);
    let outcome = session.run("display(1, update=True)").await.unwrap();
    assert_eq!(outcome.exception.unwrap().name, "TypeError");
}

/// Hundreds of changes are one display, and no flood.
#[tokio::test]
async fn a_display_that_changes_a_thousand_times_is_one() {
    let session = session().await;
    let code = "bar = display(0, display_id='bar')\nfor at in range(1000): bar.update('x' * 60_000 + str(at))";
    let outcome = good(&session, code).await;
    assert_eq!(outcome.displays.len(), 1);
    assert!(outcome.displays[0].text().unwrap().ends_with("x999'"));
    assert_eq!(outcome.notes, Vec::<String>::new());
    let code = "for at in range(6000): bar.update(at)";
    let outcome = good(&session, code).await;
    assert_eq!(outcome.notes.len(), 1, "{:?}", outcome.notes);
}

/// What is cleared is not in the outcome: text and displays. With `wait`, only once there is more.
#[tokio::test]
async fn output_can_be_cleared() {
    let session = session().await;
    let clear = "clear = get_ipython().display_pub.clear_output\n";
    let code = format!(
        "{clear}for at in range(100):\n    clear(wait=True)\n    print('step', at)\n    display(at)"
    );
    let outcome = good(&session, &code).await;
    assert_eq!(outcome.stdout.text, "step 99\n");
    assert_eq!(outcome.transcript, "step 99\n");
    assert_eq!(outcome.displays.len(), 1);
    assert_eq!(outcome.displays[0].text(), Some("99"));
    assert!(
        outcome.stdout.bytes > 700,
        "all that was written is counted"
    );
    let outcome = good(&session, "print('a', end='')\ndisplay(1)\nclear()").await;
    assert_eq!(
        (outcome.stdout.text.as_str(), outcome.displays.len()),
        ("", 0)
    );
    let outcome = good(&session, "print('a')\ndisplay(1)\nclear(wait=True)").await;
    assert_eq!(
        (outcome.stdout.text.as_str(), outcome.displays.len()),
        ("a\n", 1)
    );
}

/// A progress bar is its last state, in both streams and in the transcript.
#[tokio::test]
async fn a_redrawn_line_is_its_last_state() {
    let session = session().await;
    let code = "import sys\nprint('before')\nfor at in range(0, 101, 5): print(f'\\r{at:3}%|{\"#\" * (at // 10):10}|', end='', file=sys.stderr)\nprint(file=sys.stderr)\nprint('after\\r')";
    let outcome = good(&session, code).await;
    assert_eq!(outcome.stderr.text, "100%|##########|\n");
    assert_eq!(outcome.stdout.text, "before\nafter\r\n");
    assert_eq!(outcome.transcript, "before\n100%|##########|\nafter\r\n");
}

#[tokio::test]
async fn displays_of_other_types_and_ways() {
    let session = session().await;
    let code = r"
class Photo:
    def _repr_jpeg_(self): return b'\xff\xd8\xff', {'width': 3}
    def _repr_pdf_(self): return b'%PDF-1.7 \xff'
class Own:
    def _ipython_display_(self): print('shown by itself')
class Bad:
    def _ipython_display_(self): raise ValueError
    def __repr__(self): return 'bad'
display(Photo(), Own(), Bad())
display({'text/html': '<b>', 'application/pdf': 'JVBERg=='}, raw=True)
display(Photo(), include=['image/jpeg'])
";
    let outcome = good(&session, code).await;
    assert_eq!(outcome.stdout.text, "shown by itself\n");
    let shown = &outcome.displays;
    assert_eq!(shown.len(), 4);
    let mimes = |at: usize| -> Vec<&str> {
        shown[at]
            .parts
            .iter()
            .map(|one| one.mime.as_str())
            .collect()
    };
    assert_eq!(mimes(0), ["text/plain", "application/pdf", "image/jpeg"]);
    assert_eq!(shown[0].get("image/jpeg").unwrap().data, b"\xff\xd8\xff");
    assert_eq!(shown[0].metadata["image/jpeg"]["width"], 3);
    assert_eq!(shown[1].text(), Some("bad"));
    assert_eq!(shown[2].get("application/pdf").unwrap().data, b"%PDF");
    assert_eq!(mimes(3), ["image/jpeg"]);
    assert!(
        outcome.notes[0].contains("_ipython_display_ of a __main__.Bad"),
        "{:?}",
        outcome.notes
    );
}
