//! EXP-1 to EXP-5: `compute_with_python`, by the command's own child.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use belljar_agent::{Computations, Computed, Evaluator};

fn evaluator() -> Evaluator {
    Evaluator::new(env!("CARGO_BIN_EXE_belljar").into(), vec!["compute".into()])
}

async fn text(code: &str) -> String {
    evaluator().evaluate(code, None).await.unwrap().text()
}

/// EXP-1, EXP-4: expressions.
#[tokio::test]
async fn expressions_have_exact_values() {
    for (code, expected) in [
        ("'NcS9euQa'[::-1]", "aQue9ScN"),
        ("'apple,banana,cherry'.split(',')[1]", "banana"),
        ("round(15000 * (1 + 0.06 / 2) ** 12, 2)", "21386.41"),
        (
            "sorted(['b', 'C', 'a'], key=lambda s: s.lower())",
            "['a', 'b', 'C']",
        ),
        ("sum(x * x for x in range(10) if x % 2)", "165"),
        (
            "{w: len(w) for w in 'to be or'.split()}",
            "{'to': 2, 'be': 2, 'or': 2}",
        ),
        (
            "(lambda a, b: a ** b)(2, 100)",
            "1267650600228229401496703205376",
        ),
        ("'strawberry'.count('r')", "3"),
        ("f\"{3.14159:.2f}|{'x':>3}|{255:#x}\"", "3.14|  x|0xff"),
        ("math.sqrt(2)", "1.4142135623730951"),
        ("''.join(chr(ord(c) + 1) for c in 'HAL')", "IBM"),
        ("max(zip([1, 3, 2], 'abc'))", "(3, 'b')"),
        ("[\n  1,\n  2,\n]", "[1, 2]"),
        ("  6 * 7  # the answer", "42"),
        ("'你好'[::-1]", "好你"),
        ("None", "None"),
    ] {
        assert_eq!(text(code).await, expected, "{code}");
    }
}

/// EXP-2: the last result is there, whatever its type; an error does not change it.
#[tokio::test]
async fn the_last_result_is_kept() {
    let evaluator = evaluator();
    let mut run = Computations::default();
    for (code, expected) in [
        ("last_result", "None"),
        (
            "{'a': [1, 2.5, None], (1, 2): {3}}",
            "{'a': [1, 2.5, None], (1, 2): {3}}",
        ),
        ("last_result['a'][1] + max(last_result[(1, 2)])", "5.5"),
        ("1 / 0", "PythonError: ZeroDivisionError: division by zero"),
        ("last_result * 2", "11.0"),
        (
            "2 ** 200",
            "1606938044258990275541962092341162602522202993782792835301376",
        ),
        ("last_result // 2 ** 199", "2"),
        ("float('nan')", "nan"),
        ("last_result", "None"),
    ] {
        let computed = evaluator
            .evaluate(code, run.last_result.as_ref())
            .await
            .unwrap();
        assert_eq!(computed.text(), expected, "{code}");
        match &computed {
            Computed::Value { value, .. } => run.remember(value.clone(), false),
            Computed::Error { .. } => run.remember(None, true),
        }
        // As it is after a run was resumed from its journal.
        run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    }
    assert_eq!((run.calls, run.errors), (9, 1));
}

/// EXP-3: errors come back in Python's words, and what is refused says so.
#[tokio::test]
async fn errors_are_told() {
    for (code, expected) in [
        (
            "undefined",
            "PythonError: NameError: name 'undefined' is not defined",
        ),
        (
            "int('x')",
            "PythonError: ValueError: invalid literal for int() with base 10: 'x'",
        ),
        ("[1][5]", "PythonError: IndexError: list index out of range"),
        (
            "__import__('os').system('ls')",
            "PythonError: PermissionError: `__import__` is refused",
        ),
        (
            "open('/etc/passwd').read()",
            "PythonError: PermissionError: `open` is refused",
        ),
        (
            "eval('1')",
            "PythonError: PermissionError: `eval` is refused",
        ),
        (
            "x = 1",
            "PythonError: SyntaxError: statements are not allowed",
        ),
        (
            "import os",
            "PythonError: SyntaxError: imports are not allowed",
        ),
        ("1; 2", "PythonError: SyntaxError: only one expression"),
        ("1)\n(2", "PythonError: SyntaxError: "),
        ("(1", "PythonError: SyntaxError: "),
        ("", "PythonError: SyntaxError: there is no expression"),
        (
            "().__class__.__bases__[0].__subclasses__()",
            "PythonError: AttributeError: ",
        ),
    ] {
        let text = text(code).await;
        assert!(text.starts_with(expected), "{code}: {text}");
    }
}

/// EXP-5: what would take all time or memory ends by a typed error, soon, and the host lives.
#[tokio::test]
async fn hostile_expressions_end_typed() {
    let deep = |piece: &str, end: &str| format!("{}1{}", piece.repeat(5000), end.repeat(5000));
    let cases = [
        "9**9**9".to_owned(),
        "'a'*10**10".into(),
        "[0]*10**10".into(),
        "list(range(10**9))".into(),
        "sum(range(10**12))".into(),
        "(lambda f: f(f))(lambda f: f(f))".into(),
        "[x for x in iter(int, 1)]".into(),
        "{i: 'x' * 1000 for i in range(10**9)}".into(),
        "str(2**10_000_000)".into(),
        "10**10**5 * 10**10**5 % 7 + sum(10**i for i in range(10**5))".into(),
        "'%999999999d' % 1".into(),
        "f'{1:999999999}'".into(),
        "'a'.ljust(10**10)".into(),
        "'ab'.replace('', 'x' * 10**6) * 10**6".into(),
        "pow(3, 10**9)".into(),
        "1 << 10**12".into(),
        "math.factorial(10**7)".into(),
        "bytes(10**12)".into(),
        "('a' * 10**5).replace('a', 'b' * 10**5)".into(),
        deep("(", ")"),
        deep("[", "]"),
        deep("-", ""),
        deep("not ", ""),
        deep("1+", ""),
        deep("lambda:", ""),
        format!("''{}", ".lower()".repeat(3500)),
        "(".repeat(30_000),
        "x".repeat(40_000),
    ];
    let mut wrong = Vec::new();
    for code in cases {
        let start = Instant::now();
        let computed = evaluator().evaluate(&code, None).await;
        let took = start.elapsed();
        let short: String = code.chars().take(40).collect();
        let typed = matches!(computed, Ok(Computed::Error { .. }));
        if !typed || took > Duration::from_secs(7) {
            wrong.push(format!("{took:?} {short}: {computed:.200?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The process that computes has no capability, cannot gain one, is under a filter and in namespaces of its
/// own; as root, it is another user.
#[tokio::test]
async fn the_child_is_behind_walls() {
    let computing = tokio::spawn(async { text("sum(range(10**12))").await });
    let child = computing_process().await;
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
    let field = |name: &str| {
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(
        (field("Seccomp:"), field("NoNewPrivs:")),
        ("2".into(), "1".into())
    );
    assert_eq!(field("NSpid:"), format!("{child} 1"));
    let user = field("Uid:");
    let mut users = user.split(' ');
    let first = users.next().unwrap();
    assert!(users.all(|other| other == first), "{user}");
    // Only root may look further.
    if rustix::process::getuid().is_root() {
        assert_ne!(first, "0");
        assert_eq!(field("Groups:"), "");
        for name in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"] {
            let link = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{name}")).unwrap();
            assert_ne!(link(&child.to_string()), link("self"), "{name}");
        }
        let root = std::fs::read_dir(format!("/proc/{child}/root")).unwrap();
        assert_eq!(root.count(), 0);
        let mut open: Vec<_> = std::fs::read_dir(format!("/proc/{child}/fd"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        open.sort();
        assert_eq!(open, ["0", "1", "2"]);
        let interfaces = std::fs::read_to_string(format!("/proc/{child}/net/dev")).unwrap();
        // Two lines of headings, and loopback.
        assert_eq!(interfaces.lines().count(), 3, "{interfaces}");
        let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max address space"))
            .unwrap();
        assert!(line.contains("536870912"), "{limits}");
    }
    assert!(computing.await.unwrap().contains("TimeoutError"));
}

/// The one process below this one that is the first of a pid namespace, once it is under its filter.
async fn computing_process() -> u32 {
    for _ in 0..500 {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let parent = |status: &str| {
                let mut lines = status.lines();
                let line = lines.find_map(|line| line.strip_prefix("PPid:"))?;
                line.trim().parse::<u32>().ok()
            };
            let above = parent(&status).map(|pid| format!("/proc/{pid}/status"));
            let above = above.and_then(|path| std::fs::read_to_string(path).ok());
            let is_ours = above.and_then(|above| parent(&above)) == Some(std::process::id());
            if is_ours && status.contains("Seccomp:\t2") {
                return name.parse().unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no process computes");
}

/// Where it can't be confined it does not compute, and says why. Here: no namespace may be made.
#[tokio::test]
async fn without_walls_nothing_is_computed() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" compute";
    let program = env!("CARGO_BIN_EXE_belljar");
    let arguments = ["-U", "-r", "/bin/sh", "-c", script, program].map(Into::into);
    let evaluator = Evaluator::new("/usr/bin/unshare".into(), arguments.into());
    let error = evaluator
        .evaluate("6 * 7", None)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot be confined: making namespaces"),
        "{error}"
    );
}

/// A killed parent takes the process that computes along.
#[tokio::test]
async fn the_child_ends_with_the_host() {
    let computing = tokio::spawn(async { text("sum(range(10**12))").await });
    let child = computing_process().await;
    computing.abort();
    let path = format!("/proc/{child}");
    for _ in 0..600 {
        if !std::fs::exists(&path).unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it computes on");
}

/// What one evaluation costs, most of it the start of the child.
#[tokio::test]
async fn heavy_one_evaluation_is_quick() {
    let evaluator = evaluator();
    let mut times = Vec::new();
    for _ in 0..50 {
        let start = Instant::now();
        evaluator.evaluate("'abc'[::-1]", None).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("p50 {:?}, at most {:?}", times[25], times[49]);
    assert!(times[25] < Duration::from_millis(200), "{times:?}");
}
