//! Tables of a live session, read by parts.

use belljar_sandbox::protocol::{
    ColumnStatistics, TableFilter, TableOperator, TableRows, TableSort, TableValue, TableView,
};
use belljar_sandbox::{Checkpoints, Error, Limits, Secrets, Session, SessionOptions, TableError};

use crate::support::{data_engine, data_session, good, printed, seconds, session};

const SALES: &str = r#"
import pandas as pd, numpy as np
sales = pd.DataFrame({
    "region": [["North", "South", "East", None][n % 4] for n in range(1000)],
    "amount": [n * 0.5 for n in range(1000)],
    "day": pd.date_range("2026-01-01", periods=1000, freq="D"),
})
"#;

fn sorted(column: i32, descending: bool) -> TableView {
    TableView {
        sort: Some(TableSort { column, descending }),
        ..TableView::default()
    }
}

fn filtered(filters: &[(i32, TableOperator, &str)]) -> TableView {
    let filters = filters.iter().map(|(column, operator, value)| TableFilter {
        column: *column,
        operator: *operator,
        value: (*value).to_owned(),
    });
    TableView {
        filters: filters.collect(),
        ..TableView::default()
    }
}

async fn rows(session: &Session, name: &str, view: &TableView) -> Result<TableRows, Error> {
    session.namespace("main").table_rows(name, view, 0, 3).await
}

async fn statistics(session: &Session, name: &str, column: i32) -> ColumnStatistics {
    let view = TableView::default();
    let namespace = session.namespace("main");
    let read = namespace.table_statistics(name, &view, column).await;
    read.unwrap()
}

async fn csv(session: &Session, name: &str, view: &TableView, limit: u64) -> Result<String, Error> {
    let (parts, mut arriving) = tokio::sync::mpsc::channel(1);
    let collect = async {
        let mut all = Vec::new();
        while let Some(part) = arriving.recv().await {
            all.extend(part);
        }
        all
    };
    let namespace = session.namespace("main");
    let (read, all) = tokio::join!(namespace.table_csv(name, view, limit, parts), collect);
    read.map(|()| String::from_utf8(all).unwrap())
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "as values of a page are: none is a missing one"
)]
fn text(text: &str) -> Option<TableValue> {
    Some(TableValue::Text(text.to_owned()))
}

fn first_column(rows: &TableRows) -> Vec<&str> {
    let first = rows.rows.iter().map(|row| match &row[0] {
        Some(TableValue::Text(text)) => text.as_str(),
        _ => "?",
    });
    first.collect()
}

fn problem(result: Result<impl std::fmt::Debug, Error>) -> TableError {
    match result {
        Err(Error::Table(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_table_is_read_by_pages_in_any_order() {
    let session = data_session().await;
    good(&session, SALES).await;
    let page = session
        .namespace("main")
        .table_rows("sales", &TableView::default(), 998, 100)
        .await
        .unwrap();
    let names: Vec<_> = page.columns.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["region", "amount", "day"]);
    assert_eq!(page.columns[1].dtype, "float64");
    assert_eq!((page.total_rows, page.matching_rows), (1000, 1000));
    assert_eq!(page.index, [998, 999].map(|n| Some(TableValue::Integer(n))));
    let expected = vec![
        text("East"),
        Some(TableValue::Number(499.0)),
        text("2028-09-25 00:00:00"),
    ];
    assert_eq!(page.rows[0], expected);
    assert_eq!(page.rows[1][0], None);

    let greatest = rows(&session, "sales", &sorted(1, true)).await.unwrap();
    let amounts: Vec<_> = greatest.rows.iter().map(|row| row[1].clone()).collect();
    let expected = [499.5, 499.0, 498.5].map(|n| Some(TableValue::Number(n)));
    assert_eq!(amounts, expected);
    // Equal values stay in their order; missing ones come last.
    let by_region = rows(&session, "sales", &sorted(0, false)).await.unwrap();
    assert_eq!(first_column(&by_region), ["East", "East", "East"]);
    assert_eq!(
        by_region.index,
        [2, 6, 10].map(|n| Some(TableValue::Integer(n)))
    );
    let last = session
        .namespace("main")
        .table_rows("sales", &sorted(0, true), 999, 5)
        .await
        .unwrap();
    assert_eq!(last.rows[0][0], None);
    let by_index = rows(&session, "sales", &sorted(-1, true)).await.unwrap();
    assert_eq!(by_index.index[0], Some(TableValue::Integer(999)));
}

#[tokio::test]
async fn a_table_is_filtered_by_its_columns() {
    use TableOperator::{Contains, Equals, Greater, Less};
    let session = data_session().await;
    good(&session, SALES).await;
    for (filters, matching) in [
        (&[(0, Contains, "OR")][..], 250),
        (&[(0, Equals, "north")], 0),
        (&[(0, Equals, "North")], 250),
        (&[(0, Less, "North")], 250),
        (&[(1, Less, "10")], 20),
        (&[(1, Greater, "498.5")], 2),
        (&[(1, Contains, "99.5")], 5),
        (&[(2, Less, "2026-02-01")], 31),
        (&[(-1, Equals, "7")], 1),
        (
            &[
                (0, Contains, "o"),
                (1, Less, "10"),
                (2, Greater, "2026-01-10"),
            ],
            4,
        ),
    ] {
        let view = filtered(filters);
        let page = rows(&session, "sales", &view).await.unwrap();
        assert_eq!(page.matching_rows, matching, "{filters:?}");
        assert_eq!(page.total_rows, 1000);
    }
    for filter in [(1, Less, "many"), (2, Greater, "soon"), (1, Equals, "")] {
        let refused = problem(rows(&session, "sales", &filtered(&[filter])).await);
        assert_eq!(refused, TableError::NotComparable("sales".into()));
    }
    for column in [3, -2, i32::MAX] {
        let refused = problem(rows(&session, "sales", &sorted(column, false)).await);
        assert_eq!(refused, TableError::NoColumn("sales".into()));
    }
}

#[tokio::test]
async fn columns_have_statistics() {
    let session = data_session().await;
    good(&session, SALES).await;
    let amount = statistics(&session, "sales", 1).await;
    let number = |number| Some(TableValue::Number(number));
    let expected = ColumnStatistics {
        count: 1000,
        missing: 0,
        unique: Some(1000),
        min: number(0.0),
        max: number(499.5),
        mean: number(249.75),
    };
    assert_eq!(amount, expected);
    let region = statistics(&session, "sales", 0).await;
    let expected = ColumnStatistics {
        count: 750,
        missing: 250,
        unique: Some(3),
        min: text("East"),
        max: text("South"),
        mean: None,
    };
    assert_eq!(region, expected);
    let namespace = session.namespace("main");
    let view = filtered(&[(0, TableOperator::Equals, "North")]);
    let north = namespace.table_statistics("sales", &view, 1).await.unwrap();
    assert_eq!((north.count, north.max), (250, number(498.0)));
}

#[tokio::test]
async fn the_whole_table_comes_as_csv() {
    let session = data_session().await;
    good(&session, SALES).await;
    let view = TableView {
        sort: Some(TableSort {
            column: 1,
            descending: true,
        }),
        ..filtered(&[
            (0, TableOperator::Equals, "North"),
            (1, TableOperator::Less, "5"),
        ])
    };
    let expected =
        "region,amount,day\nNorth,4.0,2026-01-09\nNorth,2.0,2026-01-05\nNorth,0.0,2026-01-01\n";
    assert_eq!(csv(&session, "sales", &view, 1000).await.unwrap(), expected);
    // More than a part, with a label for each row.
    let wide =
        "wide = pd.DataFrame({'text': ['x' * 1000] * 3000}, index=[f'r{n}' for n in range(3000)])";
    good(&session, wide).await;
    let all = csv(&session, "wide", &TableView::default(), 10_000_000).await;
    let all = all.unwrap();
    assert_eq!(all.lines().count(), 3001);
    assert!(all.starts_with(",text\nr0,xxx"));
    assert!(all.ends_with("x\n"));
    let cut = problem(csv(&session, "wide", &TableView::default(), 2_000_000).await);
    let expected = TableError::TooLarge {
        name: "wide".into(),
        limit: 2_000_000,
    };
    assert_eq!(cut, expected);
}

#[tokio::test]
async fn other_values_are_tables_or_none() {
    let session = data_session().await;
    let code = "import pandas as pd, numpy as np\n\
        series = pd.Series([3, 1, 2], name='n', index=list('abc'))\n\
        square = np.arange(6).reshape(2, 3)\n\
        line, text, mixed = np.arange(6), 'text', pd.DataFrame({'m': [1, 'a', None, [2], 10**5000]})\n\
        wide, twice = pd.DataFrame(np.zeros((2, 300))), pd.DataFrame([[1, 2]], columns=['a', 'a'])\n\
        levels = pd.DataFrame({'v': [1]}, index=pd.MultiIndex.from_tuples([('k', 1)]))\n\
        empty = pd.DataFrame()";
    good(&session, code).await;
    let series = rows(&session, "series", &sorted(0, false)).await.unwrap();
    assert_eq!(series.columns[0].name, "n");
    assert_eq!(series.index, [text("b"), text("c"), text("a")]);
    let square = rows(&session, "square", &sorted(2, true)).await.unwrap();
    let expected = [[3, 4, 5], [0, 1, 2]].map(|row| row.map(|n| Some(TableValue::Integer(n))));
    assert_eq!(square.rows, expected);
    let mixed = rows(&session, "mixed", &sorted(0, false)).await.unwrap();
    assert_eq!(mixed.rows.len(), 3);
    let wide = rows(&session, "wide", &TableView::default()).await.unwrap();
    assert_eq!((wide.columns.len(), wide.total_columns), (100, 300));
    let view = filtered(&[(1, TableOperator::Equals, "2")]);
    let twice = rows(&session, "twice", &view).await.unwrap();
    assert_eq!(twice.matching_rows, 1);
    let levels = rows(&session, "levels", &sorted(-1, false)).await.unwrap();
    assert_eq!(levels.index, [text("('k', 1)")]);
    let empty = rows(&session, "empty", &TableView::default())
        .await
        .unwrap();
    assert_eq!((empty.rows.len(), empty.total_rows), (0, 0));
    for name in ["line", "text"] {
        let refused = problem(rows(&session, name, &TableView::default()).await);
        assert_eq!(refused, TableError::NotATable(name.into()));
    }
}

/// Names, values, history and what the next cell finds are as before. A value that is gone is said to be.
#[tokio::test]
async fn reading_changes_nothing() {
    let session = data_session().await;
    good(&session, SALES).await;
    let code = "before = (id(sales), sorted(globals()), _ if '_' in globals() else None)\n\
        import random; random.seed(1); state = random.getstate()\n\
        class Loud:\n    def __str__(self): print('loud'); sales.drop(sales.index, inplace=True); return 'loud'\n\
        loud = pd.DataFrame({'value': [Loud()]})";
    good(&session, code).await;
    let manifest = session.manifest().await.unwrap();
    for _ in 0..3 {
        rows(&session, "sales", &sorted(1, true)).await.unwrap();
        let loud = rows(&session, "loud", &TableView::default()).await;
        assert_eq!(first_column(&loud.unwrap()), ["loud"]);
        csv(&session, "sales", &TableView::default(), 1_000_000)
            .await
            .unwrap();
    }
    assert_eq!(session.manifest().await.unwrap(), manifest);
    let code =
        "print(before[0] == id(sales), len(sales), random.getstate() == state, '_' in globals())";
    let outcome = good(&session, code).await;
    assert_eq!(outcome.stdout.text, "True 1000 True False\n");
    assert_eq!(outcome.cell, 3);
    assert!(outcome.changes.added.is_empty() && outcome.changes.changed.is_empty());
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);

    good(&session, "del sales").await;
    for name in ["sales", "never", "__builtins__.len", ""] {
        let gone = problem(rows(&session, name, &TableView::default()).await);
        assert_eq!(gone, TableError::NoName(name.into()));
    }
    let elsewhere = session.namespace("none");
    let whole = TableView::default();
    let elsewhere = elsewhere.table_rows("sales", &whole, 0, 1);
    assert!(matches!(elsewhere.await, Err(Error::NoNamespace(_))));
}

/// A running cell is waited for, and its changes are seen.
#[tokio::test]
async fn reading_waits_for_a_running_cell() {
    let session = data_session().await;
    good(&session, SALES).await;
    let cell = session.run("import time; time.sleep(0.5); sales = sales.head(7)");
    let whole = TableView::default();
    let page = rows(&session, "sales", &whole);
    let (outcome, page) = tokio::join!(cell.into_future(), page);
    assert!(outcome.unwrap().is_success());
    // Whichever came first, it was whole.
    let total = page.unwrap().total_rows;
    assert!(total == 7 || total == 1000, "{total}");
    let page = rows(&session, "sales", &TableView::default()).await;
    assert_eq!(page.unwrap().total_rows, 7);
}

/// Code of the values can fail, end its process or never end: the session continues.
#[tokio::test]
async fn waits_hostile_values_cost_only_the_answer() {
    let session = data_session().await;
    let code = "import pandas as pd, os, time\n\
        class Failing:\n    def __str__(self): raise ValueError\n\
        class Leaving:\n    def __str__(self): raise SystemExit\n\
        class Killing:\n    def __str__(self): os.kill(os.getpid(), 9)\n\
        class Endless:\n    def __str__(self):\n        while True: pass\n\
        failing, leaving, killing, endless = (pd.DataFrame({'v': [one()]}) for one in (Failing, Leaving, Killing, Endless))";
    good(&session, code).await;
    let page = rows(&session, "failing", &TableView::default()).await;
    assert_eq!(first_column(&page.unwrap()), ["<__main__.Failing>"]);
    let view = filtered(&[(0, TableOperator::Contains, "x")]);
    assert_eq!(
        rows(&session, "failing", &view)
            .await
            .unwrap()
            .matching_rows,
        0
    );
    let failed = problem(rows(&session, "leaving", &view).await);
    assert_eq!(failed, TableError::Failed("leaving".into()));
    let killed = problem(rows(&session, "killing", &view).await);
    assert_eq!(killed, TableError::Killed("killing".into()));
    let endless = problem(rows(&session, "endless", &view).await);
    assert!(
        matches!(endless, TableError::TooSlow { seconds: 20, .. }),
        "{endless:?}"
    );
    // Nothing is left of the processes.
    let code =
        "print(open('/proc/self/task/%d/children' % os.getpid()).read() == '', len(failing))";
    assert_eq!(printed(&session, code).await, "True 1\n");
}

/// Memory for sorting is the reader's: it is killed, and not the session.
#[tokio::test]
async fn a_reader_without_memory_is_killed_alone() {
    let limits = Limits {
        memory_bytes: 400 << 20,
        ..Limits::default()
    };
    let options = SessionOptions {
        checkpoints: Checkpoints::Off,
        limits,
        ..SessionOptions::default()
    };
    let session = data_engine().session_with(options).await.unwrap();
    let code = "import numpy as np\nlarge = np.arange(25_000_000, dtype=float).reshape(-1, 1)";
    good(&session, code).await;
    let killed = problem(rows(&session, "large", &sorted(0, true)).await);
    assert_eq!(killed, TableError::Killed("large".into()));
    assert_eq!(
        printed(&session, "print(large.sum())").await,
        "312499987500000.0\n"
    );
}

#[tokio::test]
async fn a_session_without_processes_says_so() {
    let limits = Limits {
        processes: 12,
        ..Limits::default()
    };
    let options = SessionOptions {
        checkpoints: Checkpoints::Off,
        limits,
        ..SessionOptions::default()
    };
    let session = data_engine().session_with(options).await.unwrap();
    good(&session, SALES).await;
    let code = "import threading, time\nend = threading.Event()\nwhile True:\n    try: threading.Thread(target=end.wait).start()\n    except RuntimeError: break";
    good(&session, code).await;
    let refused = problem(rows(&session, "sales", &TableView::default()).await);
    assert_eq!(refused, TableError::NoProcess("sales".into()));
    good(&session, "end.set(); time.sleep(0.2)").await;
    rows(&session, "sales", &TableView::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn secrets_are_replaced_in_tables() {
    let secret = r#"tok-"2c26b46b68ffc68f"#;
    let options = SessionOptions {
        secrets: Secrets::new([("TOKEN".to_owned(), secret.to_owned())].into()).unwrap(),
        ..SessionOptions::default()
    };
    let session = data_engine().session_with(options).await.unwrap();
    let code = "import os, pandas as pd\ntoken = os.environ['TOKEN']\n\
        held = pd.DataFrame({token: [token, 'a' * 1990 + token], 'n': [1, 2]}, index=[token, 'b'])";
    good(&session, code).await;
    let page = rows(&session, "held", &TableView::default()).await.unwrap();
    assert_eq!(page.columns[0].name, "[secret TOKEN]");
    assert_eq!(page.index[0], text("[secret TOKEN]"));
    assert_eq!(page.rows[0][0], text("[secret TOKEN]"));
    let figures = statistics(&session, "held", 0).await;
    assert_eq!(figures.max, text("[secret TOKEN]"));
    let all = csv(&session, "held", &TableView::default(), 10_000).await;
    let all = all.unwrap();
    assert!(!all.contains("2c26b46b68ffc68f"), "{all}");
    assert_eq!(all.matches("[secret TOKEN]").count(), 4);
}

/// A guest that lies about a table is ended, as with any other lie.
#[tokio::test]
async fn a_lying_guest_is_ended() {
    let lies = [
        r#"b'{"columns": []}'"#,
        r#"b'{"columns": [], "index": [1], "rows": [[1]], "matching_rows": 1, "total_rows": 1, "total_columns": 0}'"#,
        "b'x' * (9 << 20)",
        "b''",
    ];
    for lie in lies {
        let session = session().await;
        let code = format!(
            "import belljar_guest.session as s\n\
             s.read_table = lambda names, request: s.send({{'type': 'table_end'}}, {lie})"
        );
        good(&session, &code).await;
        let ended = rows(&session, "x", &TableView::default()).await;
        let Err(Error::Ended(why)) = ended else {
            panic!("{lie}: {ended:?}");
        };
        assert!(why.starts_with("it broke the protocol"), "{why}");
        assert!(session.is_ended());
    }
    for answer in [
        "{'type': 'table_part'}, b'abc'",
        "{'type': 'table_end', 'problem': 'none'}",
        "{'type': 'manifest', 'names': []}",
    ] {
        let session = session().await;
        let code = format!(
            "import belljar_guest.session as s\ns.read_table = lambda names, request: s.send({answer})"
        );
        good(&session, &code).await;
        let ended = csv(&session, "x", &TableView::default(), 1000).await;
        assert!(matches!(ended, Err(Error::Ended(_))), "{answer}: {ended:?}");
    }
}

/// A caller who gives up leaves no answer behind.
#[tokio::test]
async fn a_read_that_is_given_up_disturbs_nothing() {
    let session = data_session().await;
    good(&session, SALES).await;
    for _ in 0..5 {
        let view = TableView::default();
        let read = rows(&session, "sales", &view);
        let _ = tokio::time::timeout(seconds(0.001), read).await;
    }
    assert_eq!(printed(&session, "print(len(sales))").await, "1000\n");
    rows(&session, "sales", &TableView::default())
        .await
        .unwrap();
}
