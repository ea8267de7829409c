//! Rich outputs (ENV-4: plots without a display, Chinese text; C9: hostile representations).

use belljar_sandbox::protocol::Outcome;

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
