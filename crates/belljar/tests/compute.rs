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
async fn heavy_hostile_expressions_end_typed() {
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
    assert!(times[25] < Duration::from_millis(200), "{times:?}");
}
