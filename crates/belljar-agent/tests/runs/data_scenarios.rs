//! Tasks of the requirements on data that is made to their shapes: subway (S5), streets (S8), and
//! the reference executions (S17).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use belljar_agent::{CallResult, ExitReason, Run, Start, TaskFile};
use belljar_sandbox::Engine;
use belljar_sandbox::protocol::Language;
use serde_json::json;

use crate::emergency_data::Chance;
use crate::support::{Desk, answer, answer_of, code, drive, environment, start};

async fn run_with(desk: &Desk, task: &str, files: Vec<(&str, Vec<u8>)>) -> Run {
    let agent = desk.agent().await;
    let mut kept: Vec<TaskFile> = Vec::new();
    for (name, contents) in files {
        kept.push(agent.file(name, contents).await.unwrap());
    }
    let start = Start {
        files: kept,
        ..start(task)
    };
    drive(agent.start(start).await.unwrap()).await
}

fn result(run: &Run, step: usize) -> &CallResult {
    run.steps()[step].calls[0].result().unwrap()
}

fn output(run: &Run, step: usize) -> &str {
    &result(run, step).cell.as_ref().unwrap().output
}

/// The answer was taken, and each value of it was printed.
fn check_answer(run: &Run, wanted: &str) {
    let ending = run.ending().unwrap();
    assert_eq!(ending.reason, ExitReason::Answered, "{ending:?}");
    assert_eq!(answer_of(run), wanted);
    for value in &ending.evidence {
        assert!(value.seen.is_some(), "{value:?}");
    }
}

/// S5: a missing file and places that are none are reported in the words of the models; what is sound
/// is loaded, from both files.
#[tokio::test(flavor = "multi_thread")]
async fn s5_beijing_subway() {
    let station = |n: &str, sl: Option<&str>, number: usize| json!({"rs": "1 2", "sl": sl, "n": n, "sid": format!("110{number}"), "r": "900000069904|900000069905", "t": "1", "si": format!("{number}")});
    let drawing = json!({"s": "北京市轨道交通线网图", "i": "1100", "l": [
        {"st": [station("苹果园", Some("116.177388,39.926727"), 0), station("古城", Some(""), 1), station("八角游乐园", None, 2)]},
        {"st": [station("西直门", Some("116.355426"), 3), station("积水潭", Some("116.373120,39.948660"), 4)]},
    ]});
    let info = json!({"i": "1100", "l": [{"a": "1号线", "st": [{"ac": "110000", "si": "0", "d": [
        {"ls": "110100023098001", "lt": "23:30", "n": "古城", "ft": "05:10"},
        {"ls": "110100023098002", "n": "四惠东"},
    ]}]}]});
    let said = "北京市轨道交通线网图 1100：第一站“苹果园” (116.177388, 39.926727)，首方向 110100023098001，末班 23:30；3 个站有效，2 个站被拒绝。";
    let desk = Desk::new([
        code(include_str!("cells/s5_models.py")),
        code("drawing = load('1100_draw_beijing.json', DrwSubwayData)"),
        code("drawing = load('1100_drw_beijing.json', DrwSubwayData)"),
        code(include_str!("cells/s5_load.py")),
        answer(said),
    ]);
    let files = vec![
        ("1100_drw_beijing.json", drawing.to_string().into_bytes()),
        ("1100_info_beijing.json", info.to_string().into_bytes()),
    ];
    let run = run_with(&desk, "载入并验证北京地铁数据。", files).await;
    check_answer(&run, said);
    let missing = &result(&run, 1).text;
    assert!(
        missing.contains("FileNotFoundError: 文件不存在：1100_draw_beijing.json"),
        "{missing}"
    );
    let refused = &result(&run, 2).text;
    for part in [
        "ValidationError: 2 validation errors for DrwSubwayData",
        "l.0.st.1.sl",
        "经纬度不能为空",
        "l.1.st.0.sl",
        "无效的经纬度格式：116.355426",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let loaded = output(&run, 3);
    assert!(
        loaded.contains("l.1.st.0 西直门"),
        "the place of a bad row is named: {loaded}"
    );
}

/// Rows of the street network: name, position; whether all fields are there.
type Row = (String, f64, f64, bool);

struct Streets {
    addresses: Vec<Row>,
    houses: Vec<Row>,
    /// Names and whether they are in Beijing.
    known: Vec<(String, bool)>,
}

/// Twelve streets in a row, of which two touch only by a house; three elsewhere; streets of another
/// state beside them, and one street that is alone.
fn make_streets() -> Streets {
    let mut chance = Chance::new(8);
    let mut made = Streets {
        addresses: Vec::new(),
        houses: Vec::new(),
        known: Vec::new(),
    };
    for at in 0..12_u8 {
        let name = format!("长安街{at}段");
        let x = 116.3 + 0.0008 * f64::from(at) + if at < 6 { 0.0 } else { 0.0009 };
        for _ in 0..=chance.below(3) {
            let whole = chance.below(5) > 0;
            made.addresses.push((name.clone(), x, 39.9, whole));
        }
        for _ in 0..chance.below(3) {
            made.houses
                .push((name.clone(), x, 39.9002, chance.below(5) > 0));
        }
        made.known.push((name, true));
    }
    made.houses.push((
        "长安街5段".into(),
        116.3 + 0.0008 * 5.0 + 0.0009,
        39.9,
        true,
    ));
    for at in 0..3_u8 {
        let name = format!("郊区路{at}");
        made.addresses
            .push((name.clone(), 116.8 + 0.0005 * f64::from(at), 40.3, true));
        made.known.push((name, true));
    }
    for at in 0..4_u8 {
        let name = format!("保定路{at}");
        made.addresses
            .push((name.clone(), 116.3 + 0.0008 * f64::from(at), 39.9001, true));
        made.known.push((name, false));
    }
    made.known.push(("孤岛路".into(), true));
    made
}

impl Streets {
    fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut addresses =
            String::from("\u{feff}postal code_\t city_\tstreet_ \tx_min\ty_min\tx_max\ty_max\n");
        for (street, x, y, whole) in &self.addresses {
            let city = if *whole { "北京市" } else { "" };
            let _ = writeln!(
                addresses,
                "100000\t{city}\t{street}\t{x:.4}\t{y:.4}\t{x:.4}\t{y:.4}"
            );
        }
        let mut houses =
            String::from("\u{feff}postal_code\tcity\tstreet\thouse number\tx\ty\tcountry\n");
        for (at, (street, x, y, whole)) in self.houses.iter().enumerate() {
            let number = if *whole {
                at.to_string()
            } else {
                String::new()
            };
            let _ = writeln!(
                houses,
                "100000\t北京市\t{street}\t{number}\t{x:.4}\t{y:.4}\tCN"
            );
        }
        let mut streets =
            String::from("\u{feff} city\tcountry\tstate\tprovince\tstreet name\tpostal_code\n");
        for (street, here) in &self.known {
            let state = if *here { "北京市" } else { "河北省" };
            let _ = writeln!(streets, "{state}\tCN\t{state}\t{state}\t{street}\t100000");
        }
        vec![
            ("CN-addresses-beijing.tsv", addresses.into_bytes()),
            ("CN-houses-beijing.tsv", houses.into_bytes()),
            ("CN-streets-beijing.tsv", streets.into_bytes()),
        ]
    }

    /// Addresses, houses and streets that are left, and the size of the largest component.
    fn expected(&self) -> [usize; 4] {
        let here: BTreeSet<&str> = self
            .known
            .iter()
            .filter(|s| s.1)
            .map(|s| s.0.as_str())
            .collect();
        let places = self
            .addresses
            .iter()
            .filter(|row| here.contains(row.0.as_str()));
        let places: Vec<&Row> = places.chain(&self.houses).collect();
        let mut largest: BTreeSet<&str> = BTreeSet::new();
        for street in &here {
            let mut found = BTreeSet::from([*street]);
            loop {
                let near = |row: &&&Row| {
                    places.iter().any(|other| {
                        found.contains(other.0.as_str())
                            && (row.1 - other.1).hypot(row.2 - other.2) < 0.001
                    })
                };
                let new: Vec<&str> = places
                    .iter()
                    .filter(near)
                    .map(|row| row.0.as_str())
                    .collect();
                let before = found.len();
                found.extend(new);
                if found.len() == before {
                    break;
                }
            }
            if found.len() > largest.len() {
                largest = found;
            }
        }
        let kept = |rows: &[Row]| {
            rows.iter()
                .filter(|row| row.3 && largest.contains(row.0.as_str()))
                .count()
        };
        [
            kept(&self.addresses),
            kept(&self.houses),
            largest.len(),
            largest.len(),
        ]
    }
}

/// S8: streets that are near each other, and the rows of the largest group that are complete.
#[tokio::test(flavor = "multi_thread")]
async fn s8_street_network() {
    let streets = make_streets();
    let [addresses, houses, kept, component] = streets.expected();
    assert_eq!(component, 12, "the data is as it was meant");
    assert!(addresses < streets.addresses.len() - 7 && houses < streets.houses.len());
    let said =
        format!("addresses {addresses}, houses {houses}, streets {kept}, component {component}");
    let desk = Desk::new([code(include_str!("cells/s8_filter.py")), answer(&said)]);
    let agent = desk.agent().await;
    let mut start = start("Filter the street network of Beijing.");
    for (name, contents) in streets.files() {
        start.files.push(agent.file(name, contents).await.unwrap());
    }
    let live = agent.start(start).await.unwrap();
    let directory = live.artifacts();
    let run = drive(live).await;
    assert!(
        output(&run, 0).contains(&said),
        "{said}: {}",
        result(&run, 0).text
    );
    check_answer(&run, &said);
    for (name, rows) in [
        ("addresses", addresses),
        ("houses", houses),
        ("streets", kept),
    ] {
        let path = directory.join(format!("filtered_bj/CN-{name}.tsv"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with('\u{feff}'), "{text}");
        assert_eq!(text.lines().count(), rows + 1);
    }
}

/// S17, numbers 1, 2, 4 and 5: the texts for the model about success, failure, crash and recursion, and
/// that it can continue after each with the variables that it had.
#[tokio::test(flavor = "multi_thread")]
async fn s17_what_the_model_is_told() {
    let desk = Desk::new([
        code("a = 123\nb = [1, 2, 3]"),
        code("import time\nc = 10\nimport scipy\nprint(\"scipy imported\")"),
        code("# The fourth line fails.\na = 123\nb = 0\nc = a / b"),
        code("print(a, b, c, scipy.__name__)"),
        code("def recursive_crash(): recursive_crash()\nrecursive_crash()"),
        code("import os; os._exit(139)"),
        code("print(a, b, recursive_crash.__name__)"),
        answer("ZeroDivisionError, then exit code 139."),
    ]);
    let run = desk
        .run(Start {
            language: Language::Chinese,
            ..start("运行参考代码。")
        })
        .await;
    assert_eq!(run.steps().len(), 8);
    let told = |step: usize| -> &str { &result(&run, step).text };
    assert!(told(0).starts_with("（没有输出"), "{}", told(0));
    assert_eq!(told(1), "scipy imported\n");
    let parts = [
        (2, "line 4, in <module>\n    c = a / b"),
        (2, "ZeroDivisionError: division by zero\n代码失败了。"),
        (3, "123 0 10 scipy"),
        (4, "RecursionError"),
        (5, "进程以退出码 139 结束（128 + SIGSEGV）"),
        (5, "变量已恢复到第 5 个单元之后的状态。"),
        (6, "123 0 recursive_crash"),
    ];
    for (step, part) in parts {
        assert!(told(step).contains(part), "{part}: {}", told(step));
    }
    let failed: Vec<bool> = (0..7).map(|step| result(&run, step).failed).collect();
    assert_eq!(failed, [false, false, true, false, true, true, false]);
    assert!(!result(&run, 5).cell.as_ref().unwrap().lost);
}

/// S17, number 3: the output before the limit, the limit itself, and the variables are there.
#[tokio::test(flavor = "multi_thread")]
async fn s17_3_what_the_model_is_told_of_a_timeout() {
    let mut desk = Desk::new([
        code("a = 123\nb = [1, 2, 3]"),
        code("import time\nprint(\"Start sleeping...\", flush=True)\ntime.sleep(100)"),
        code("print(a, b)"),
        answer("123 [1, 2, 3]"),
    ]);
    let mut limits = desk.engine.limits().clone();
    limits.wall_time = Duration::from_secs(3);
    desk.engine = Engine::builder(environment()).limits(limits).build();
    let run = desk.run(start("Run the reference code.")).await;
    check_answer(&run, "123 [1, 2, 3]");
    let told = &result(&run, 1).text;
    assert!(
        told.contains("Start sleeping...\n") && told.contains("3 s"),
        "{told}"
    );
    assert!(told.to_lowercase().contains("time"), "{told}");
    assert!(result(&run, 1).failed);
}
