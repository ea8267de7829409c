//! Code in a session calls tools of the host.

use std::collections::BTreeMap;
use std::time::Instant;

use belljar_sandbox::protocol::{
    CallDenial, CallId, Cause, Event, Fate, Outcome, ToolError, ToolResult, ToolStub, marker,
};
use belljar_sandbox::{
    Cell, CellRun, Checkpoints, Environment, Error, Limits, OnFailure, Session, SessionOptions,
};
use serde_json::{Map, Value, json};

use crate::support::{bare_environment, data_environment, plain_builder, printed, seconds};

/// A tool with these properties, of which those marked with `!` are required.
pub(crate) fn tool(name: &str, properties: &Value) -> ToolStub {
    let required: Vec<&String> = (properties.as_object().unwrap().iter())
        .filter(|(_, schema)| schema.get("!").is_some())
        .map(|(name, _)| name)
        .collect();
    ToolStub {
        name: name.into(),
        description: format!("What {name} does."),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
        result: None,
    }
}

fn echo() -> ToolStub {
    tool(
        "echo",
        &json!({"value": {"!": 1}, "more": {"type": "integer"}}),
    )
}

fn options(tools: Vec<ToolStub>) -> SessionOptions {
    SessionOptions {
        checkpoints: Checkpoints::Off,
        tools,
        ..SessionOptions::default()
    }
}

async fn session_in(environment: Environment, options: SessionOptions) -> Session {
    let engine = plain_builder(environment).build();
    engine.session_with(options).await.unwrap()
}

async fn session(tools: Vec<ToolStub>) -> Session {
    session_in(bare_environment(), options(tools)).await
}

fn calling(code: &str) -> Cell {
    Cell {
        answers: true,
        ..Cell::from(code)
    }
}

type Answer = Result<ToolResult, ToolError>;
type Arguments = Map<String, Value>;

/// Runs a cell whose calls are answered at once.
async fn serve(
    session: &Session,
    cell: impl Into<Cell>,
    mut answer: impl FnMut(&str, &Arguments) -> Answer,
) -> Outcome {
    let mut cell = cell.into();
    cell.answers = true;
    let mut run = session.run(cell);
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Called {
                call,
                tool,
                arguments,
            } => match session.answer(call, answer(&tool, &arguments)).await {
                // The cell may not have waited for it.
                Ok(()) | Err(Error::NoCall { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            Event::Outcome(outcome) => return *outcome,
            _ => {}
        }
    }
}

fn echoed(_: &str, arguments: &Arguments) -> Answer {
    let value = arguments.get("value");
    let value = value.ok_or_else(|| ToolError("no value".into()))?;
    Ok(value.clone().into())
}

/// The same, of a cell that must succeed: what it printed.
async fn served(session: &Session, code: &str) -> String {
    let outcome = serve(session, code, echoed).await;
    assert!(outcome.is_success(), "{code}\n{outcome:#?}");
    outcome.stdout.text
}

/// The next call of a cell.
async fn called(run: &mut CellRun) -> (CallId, Arguments) {
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Called {
                call, arguments, ..
            } => return (call, arguments),
            Event::Outcome(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

/// All that is left of a cell: which calls were cancelled, and the outcome.
async fn ended(mut run: CellRun) -> (Vec<u32>, Outcome) {
    let mut cancelled = Vec::new();
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::CallCancelled { call } => cancelled.push(call.number),
            Event::Outcome(outcome) => return (cancelled, *outcome),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_gives_its_result() {
    let session = session(vec![echo()]).await;
    let code = "print('before')\nprint(tools.echo({'which': [1, 2.5, None, True], 'text': '北'}))";
    let mut run = session.run(calling(code));
    assert!(matches!(
        run.next().await,
        Some(Ok(Event::Started { cell: 1 }))
    ));
    // Output before it is reported before it.
    assert!(matches!(run.next().await, Some(Ok(Event::Output { .. }))));
    let (call, arguments) = called(&mut run).await;
    assert_eq!((call.cell, call.number), (1, 1));
    assert_eq!(
        Value::Object(arguments.clone()),
        json!({"value": {"which": [1, 2.5, null, true], "text": "北"}})
    );
    let result = arguments["value"].clone();
    session.answer(call, Ok(result.into())).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(
        outcome.stdout.text,
        "before\n{'which': [1, 2.5, None, True], 'text': '北'}\n"
    );
    // As a module, by position and by name, in functions of an earlier cell, in a thread.
    for (code, expected) in [
        ("import tools as t\nprint(t.echo(value=1))", "1\n"),
        (
            "from tools import echo\ndef f(x): return echo(x)\nprint(f(2))",
            "2\n",
        ),
        ("print(f(3), f(4))", "3 4\n"),
        (
            "import threading\nt = threading.Thread(target=lambda: print(f(5)))\nt.start(); t.join()",
            "5\n",
        ),
        ("print(tools.echo('a', more=None))", "a\n"),
        (
            "import pathlib, datetime\nprint(tools.echo([pathlib.Path('/a'), datetime.date(2020, 1, 2), {3}]))",
            "['/a', '2020-01-02', [3]]\n",
        ),
        ("print(repr(tools.echo('\\ud800')))", "'\\\\ud800'\n"),
    ] {
        assert_eq!(served(&session, code).await, expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_awaited() {
    let session = session(vec![echo()]).await;
    for (code, expected) in [
        ("print(await tools.echo(1), await tools.echo(2))", "1 2\n"),
        (
            "import asyncio\nr = await asyncio.gather(*[tools.echo(i) for i in range(100)])\nprint(r == list(range(100)))",
            "True\n",
        ),
        // What is made before it is awaited is under way.
        (
            "a, b = tools.echo('a'), tools.echo('b')\nprint(await b, await a)",
            "b a\n",
        ),
        // Loops of others: of a thread, and by asyncio.run.
        (
            "async def main(): return [await tools.echo(i) for i in range(3)]\nprint(asyncio.run(main()))",
            "[0, 1, 2]\n",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    print(list(p.map(lambda _: asyncio.run(main()), range(4))))",
            "[[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]\n",
        ),
        // Threads that block and a loop that awaits, at once.
        (
            "with ThreadPoolExecutor(8) as p:\n    loop = asyncio.get_running_loop()\n    inner = [loop.run_in_executor(p, tools.echo, i) for i in range(50)]\n    outer = [tools.echo(i) for i in range(50)]\n    print(await asyncio.gather(*inner) == await asyncio.gather(*outer))",
            "True\n",
        ),
    ] {
        assert_eq!(served(&session, code).await, expected, "{code}");
    }
    // A missing `await` is reported.
    let code = "import asyncio\nawait asyncio.sleep(0)\nfor x in tools.echo([1]): pass";
    let outcome = serve(&session, code, echoed).await;
    let message = outcome.exception.unwrap().value;
    assert!(message.contains("`await`"), "{message}");
    // Cancelled by the code: the host is notified, and the rest continues.
    let code = "try:\n    await asyncio.wait_for(tools.echo(1), 0.05)\nexcept asyncio.TimeoutError:\n    print('too late', await tools.echo(2))";
    let mut run = session.run(calling(code));
    let (first, _) = called(&mut run).await;
    let cancelled = run.next().await.unwrap().unwrap();
    assert!(
        matches!(cancelled, Event::CallCancelled { call } if call == first),
        "{cancelled:?}"
    );
    let (second, _) = called(&mut run).await;
    let late = session.answer(first, Ok(json!(0).into())).await;
    assert!(matches!(late, Err(Error::NoCall { call }) if call == first));
    session.answer(second, Ok(json!(7).into())).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stdout.text, "too late 7\n", "{outcome:?}");
}

/// A thousand calls are open at once and answered in an order of their own; twice as many threads'
/// calls as there are threads; and more than the host takes at once.
#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once() {
    let session = session(vec![echo()]).await;
    let code = "import asyncio\nr = await asyncio.gather(*[tools.echo(i) for i in range(1000)])\nprint(r == [i * 2 for i in range(1000)])";
    let mut run = session.run(calling(code));
    let mut open = BTreeMap::new();
    for number in 1..=1000 {
        let (call, arguments) = called(&mut run).await;
        assert_eq!(
            call.number, number,
            "numbers are given where calls are made"
        );
        let value = arguments["value"].as_u64().unwrap();
        assert_eq!(value + 1, u64::from(number));
        // By a key that mixes them up.
        open.insert(value * 7919 % 1009, (call, value));
    }
    for (call, value) in open.into_values() {
        session
            .answer(call, Ok(json!(value * 2).into()))
            .await
            .unwrap();
    }
    assert_eq!(run.outcome().await.unwrap().stdout.text, "True\n");
    for (code, expected) in [
        (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(50) as p:\n    print(list(p.map(tools.echo, range(500))) == list(range(500)))",
            "True\n",
        ),
        (
            "r = await asyncio.gather(*[tools.echo(i) for i in range(6000)])\nprint(r == list(range(6000)))",
            "True\n",
        ),
        (
            "big = 'x' * 200_000\nr = await asyncio.gather(*[tools.echo(big) for i in range(100)])\nprint(len(r), r[99] == big)",
            "100 True\n",
        ),
    ] {
        assert_eq!(served(&session, code).await, expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_denials_are_exceptions() {
    let session = session(vec![
        echo(),
        tool("other", &json!({"n": {"type": "integer", "!": 1}})),
    ])
    .await;
    let code = "import tools\ntry:\n    tools.echo(1)\nexcept tools.ToolError as e:\n    print(type(e).__name__, e)\ntools.echo(2)";
    let fails = |_: &str, _: &Arguments| Err(ToolError("the disk is on fire".into()));
    let outcome = serve(&session, code, fails).await;
    assert_eq!(outcome.stdout.text, "ToolError the disk is on fire\n");
    let exception = outcome.exception.unwrap();
    assert_eq!(exception.type_name, "tools.ToolError");
    assert_eq!(exception.value, "the disk is on fire");
    assert!(
        !exception.traceback.contains("belljar_guest"),
        "{exception:?}"
    );
    // Refused where they are made.
    for (code, words) in [
        (
            "tools.missing(1)",
            "no tool 'missing' is granted to this session; there are: echo, other",
        ),
        ("tools.echo()", "echo() needs the argument 'value'"),
        (
            "tools.echo(1, 2, 3)",
            "echo() takes 2 arguments; 3 were given",
        ),
        (
            "tools.echo(1, valeu=2)",
            "echo() has no parameter 'valeu'; it has: value, more",
        ),
        (
            "tools.echo(1, value=2)",
            "echo() got two values for 'value'",
        ),
        (
            "tools.echo(object())",
            "an argument of type object can't be sent to a tool",
        ),
        ("tools.echo(float('nan'))", "not JSON compliant"),
        (
            "tools.echo('x' * 300_000)",
            "too large; write them to a file",
        ),
    ] {
        let outcome = session.run(calling(code)).await.unwrap();
        let message = outcome.exception.unwrap().value;
        assert!(message.contains(words), "{code}: {message}");
    }
    // Denied by the host, which tells both sides.
    session.revoke("echo");
    for (cell, words) in [
        (calling("tools.echo(1)"), "not granted"),
        (
            calling("tools.other('many')"),
            "`n`: not of type \"integer\"",
        ),
        (
            Cell::from("tools.other(1)"),
            "nobody answers calls of this cell",
        ),
    ] {
        let mut run = session.run(cell);
        let mut denials = 0;
        let outcome = loop {
            match run.next().await.unwrap().unwrap() {
                Event::CallDenied { why, .. } => {
                    assert!(why.to_string().contains(words), "{why:?}");
                    denials += 1;
                }
                Event::Outcome(outcome) => break outcome,
                event => assert!(!matches!(event, Event::Called { .. }), "{event:?}"),
            }
        };
        let exception = outcome.exception.unwrap();
        assert_eq!(exception.type_name, "tools.ToolDenied");
        assert!(exception.value.contains(words), "{exception:?}");
        assert_eq!(denials, 1);
    }
    assert_eq!(printed(&session, "print(6 * 7)").await, "42\n");
    // A session without tools has no such name.
    let bare = session_in(bare_environment(), options(vec![])).await;
    let outcome = bare.run("tools").await.unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "NameError");
}

#[tokio::test(flavor = "multi_thread")]
async fn stubs_say_what_they_take() {
    let search = ToolStub {
        name: "web-search".into(),
        description: "Searches the web.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "max-results": {"type": "integer", "default": 10, "description": "How many."},
                "query": {"type": "string"},
                "from": {"type": ["string", "null"]},
                "kind": {"enum": ["news", "all"]},
            },
            "required": ["query"],
        }),
        result: Some(json!({"type": "array", "items": {"type": "object"}})),
    };
    let free = ToolStub {
        parameters: json!({"type": "object"}),
        ..tool("free", &json!({}))
    };
    let session = session(vec![search, free]).await;
    let code = "import inspect\nprint(inspect.signature(tools.web_search))\nprint(inspect.signature(tools.free))\nprint(dir(tools))\nprint(tools.web_search.__doc__)";
    assert_eq!(
        printed(&session, code).await,
        "(query: str, max_results: int = 10, from_: str | None = None, kind: Literal[\"news\", \"all\"] = None) -> list[dict]\n\
         (**arguments) -> Any\n\
         ['Kept', 'ResultFile', 'ToolDenied', 'ToolError', 'free', 'web_search']\n\
         Searches the web.\n\nParameters:\n    query (str)\n    max_results (int, optional): How many.\n    from_ (str | None, optional)\n    kind (Literal[\"news\", \"all\"], optional)\n"
    );
    let help = printed(&session, "help(tools.web_search)").await;
    // Python 3.13 has a line for each parameter.
    let words: Vec<&str> = help.split_whitespace().collect();
    let words = words.join(" ").replace("( ", "(");
    assert!(
        words.contains("web_search(query: str, max_results: int = 10"),
        "{help}"
    );
    assert!(help.contains("Searches the web."), "{help}");
    // Arguments go by the tool's own names.
    for (code, expected) in [
        (
            "tools.web_search('a', 3)",
            json!({"query": "a", "max-results": 3}),
        ),
        (
            "tools.web_search(from_=None, kind=None, query='a', **{'max-results': 1})",
            json!({"from": null, "query": "a", "max-results": 1}),
        ),
        ("tools.free(anything=[1])", json!({"anything": [1]})),
    ] {
        let mut seen = Value::Null;
        let outcome = serve(&session, code, |_, arguments| {
            seen = Value::Object(arguments.clone());
            Ok(json!([]).into())
        })
        .await;
        assert!(outcome.is_success(), "{code}: {outcome:?}");
        assert_eq!(seen, expected, "{code}");
    }
    // Names that are equal or invalid in Python are an error at the start of the session.
    let engine = plain_builder(bare_environment()).build();
    for (names, words) in [
        (
            vec!["a-b", "a_b"],
            "`a-b` and `a_b` would both be `tools.a_b`",
        ),
        (vec!["a", "a"], "would both be"),
        (vec!["ToolError"], "a name of the bridge itself"),
        (vec!["__dict__"], "Python has no name for"),
        (vec!["\u{202e}"], "Python has no name for"),
    ] {
        let tools = names.iter().map(|name| tool(name, &json!({}))).collect();
        let error = engine.session_with(options(tools)).await.unwrap_err();
        assert!(matches!(error, Error::Tools(_)));
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_have_their_forms() {
    let table = |name: &str| ToolStub {
        result: Some(json!({"x-belljar": "table"})),
        ..tool(name, &json!({}))
    };
    let plain = tool("plain", &json!({}));
    let tools = vec![table("sales"), plain, echo()];
    let session = session_in(data_environment(), options(tools.clone())).await;
    let rows: Vec<Value> = (0..3).map(|n| json!([n, format!("n{n}")])).collect();
    let large: Vec<Value> = (0..200_000).map(|n| json!([n, "0123"])).collect();
    let mut answers = |kind: &str, arguments: &Arguments| {
        Ok(match (kind, arguments.get("value")) {
            ("echo", Some(value)) => value.clone().into(),
            ("sales", None) => json!({"columns": ["n", "name"], "rows": rows}).into(),
            _ => json!("x".repeat(3 << 20)).into(),
        })
    };
    let code = "import numpy as np\nf = tools.sales()\nprint(type(f).__name__, f.shape, list(f.columns), f['n'].sum())\nprint(tools.echo(f), tools.echo(f['n'].max()), tools.echo(np.arange(2)))";
    let outcome = serve(&session, code, &mut answers).await;
    assert_eq!(
        outcome.stdout.text,
        "DataFrame (3, 2) ['n', 'name'] 3\n[{'n': 0, 'name': 'n0'}, {'n': 1, 'name': 'n1'}, {'n': 2, 'name': 'n2'}] 2 [0, 1]\n",
        "{outcome:?}"
    );
    // Objects are rows as well, and large tables are tables.
    let objects = |_: &str, _: &Arguments| Ok(json!([{"a": 1}, {"a": 2}]).into());
    let outcome = serve(&session, "print(tools.sales()['a'].sum())", objects).await;
    assert_eq!(outcome.stdout.text, "3\n");
    let rows_of_many =
        |_: &str, _: &Arguments| Ok(json!({"columns": ["n", "t"], "rows": large}).into());
    let outcome = serve(&session, "print(tools.sales().shape)", rows_of_many).await;
    assert_eq!(outcome.stdout.text, "(200000, 2)\n", "{outcome:?}");
    // Other large results are files.
    let code = "r = tools.plain()\nprint(type(r).__name__, r.relative_to('/workspace'), len(r.load()), r.stat().st_size, (r.parent / 'x').name)";
    let outcome = serve(&session, code, &mut answers).await;
    assert_eq!(
        outcome.stdout.text, "ResultFile tool_results/4-1.json 3145728 3145730 x\n",
        "{outcome:?}"
    );
    // If there is no space for one, the code gets an error.
    let small = SessionOptions {
        limits: Limits {
            workspace_bytes: 1 << 20,
            ..Limits::default()
        },
        ..options(tools)
    };
    let small = session_in(bare_environment(), small).await;
    let outcome = serve(&small, "tools.plain()", &mut answers).await;
    let message = outcome.exception.unwrap().value;
    assert!(message.contains("the result is too large"), "{message}");
    // Without pandas a table is what it is in JSON.
    let outcome = serve(&small, "print(tools.sales()['columns'])", &mut answers).await;
    assert_eq!(outcome.stdout.text, "['n', 'name']\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_json_stays_with_the_host() {
    let session = session(vec![tool("chart", &json!({})), echo()]).await;
    let answer = |name: &str, arguments: &Arguments| {
        Ok(match name {
            "chart" => ToolResult::Kept {
                marker: marker("chart", 7),
            },
            _ => arguments["value"].clone().into(),
        })
    };
    let code = "c = tools.chart()\nprint(c, f'{c}', [c], tools.echo(c), c == tools.chart(), isinstance(c, tools.Kept))\nc";
    let outcome = serve(&session, code, answer).await;
    assert_eq!(
        outcome.stdout.text,
        "⟦chart:7⟧ ⟦chart:7⟧ [⟦chart:7⟧] ⟦chart:7⟧ True True\n"
    );
    assert_eq!(outcome.displays[0].text(), Some("⟦chart:7⟧"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_end_with_their_cell() {
    let session = session(vec![echo()]).await;
    // Interrupted in a call, in a gather, and while a thread waits.
    for (code, open) in [
        ("tools.echo(1)", vec![1]),
        (
            "import asyncio\nawait asyncio.gather(tools.echo(1), tools.echo(2))",
            vec![1, 2],
        ),
        (
            "import threading, time\nt = threading.Thread(target=tools.echo, args=(1,), daemon=True)\nt.start()\ntools.echo(2)",
            vec![1, 2],
        ),
    ] {
        let mut run = session.run(calling(code));
        let mut calls = Vec::new();
        for _ in &open {
            calls.push(called(&mut run).await.0);
        }
        assert!(session.interrupt());
        let (mut cancelled, outcome) = ended(run).await;
        cancelled.sort_unstable();
        assert_eq!(outcome.cause, Cause::Interrupted, "{code}");
        assert_eq!(cancelled, open, "{code}");
        for call in calls {
            let late = session.answer(call, Ok(json!(0).into())).await;
            assert!(matches!(late, Err(Error::NoCall { .. })), "{late:?}");
        }
        assert_eq!(served(&session, "print(tools.echo(6))").await, "6\n");
    }
    // The code's end is the end of what nobody awaited; a late answer to a call of an earlier cell
    // is not taken for one of this cell.
    let code = "import threading, time\nseen = []\ndef wait():\n    try: tools.echo(1)\n    except tools.ToolError as e: seen.append(str(e))\n    time.sleep(0.1)\n    try: tools.echo(2)\n    except Exception as e: seen.append(type(e).__name__)\nt = threading.Thread(target=wait)\nt.start()\nwhile not threading: pass\ntime.sleep(0.05)";
    let mut run = session.run(calling(code));
    let (old, _) = called(&mut run).await;
    let (cancelled, outcome) = ended(run).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(cancelled, [1]);
    tokio::time::sleep(seconds(0.3)).await;
    let mut run = session.run(calling("t.join()\nprint(seen, tools.echo(3))"));
    let (new, _) = called(&mut run).await;
    assert_eq!((old.number, new.number), (1, 1));
    assert!(session.answer(old, Ok(json!(0).into())).await.is_err());
    session.answer(new, Ok(json!(3).into())).await.unwrap();
    assert_eq!(
        run.outcome().await.unwrap().stdout.text,
        "['the cell that made this call has ended', 'RuntimeError'] 3\n"
    );
    // Futures of a loop that continues in the next cell.
    let mut run = session.run(calling(
        "left = tools.echo(1)\nimport asyncio\nawait asyncio.sleep(0)",
    ));
    called(&mut run).await;
    assert_eq!(ended(run).await.0, [1]);
    let code =
        "try: await left\nexcept asyncio.CancelledError: print('cancelled', await tools.echo(2))";
    assert_eq!(served(&session, code).await, "cancelled 2\n");
    // A crash.
    let code = "import threading, os, time\nthreading.Thread(target=tools.echo, args=(1,)).start()\ntime.sleep(0.2)\nos._exit(3)";
    let mut run = session.run(calling(code));
    let (call, _) = called(&mut run).await;
    let (cancelled, outcome) = ended(run).await;
    assert_eq!(cancelled, [1]);
    assert_eq!(outcome.state, Fate::Lost);
    assert!(session.answer(call, Ok(json!(0).into())).await.is_err());
}

/// Its time stands still while it waits; not while it computes with a call open.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_costs_no_time() {
    let session = session(vec![echo()]).await;
    let brief = |code: &str| Cell {
        wall_time: Some(seconds(0.5)),
        ..calling(code)
    };
    for code in [
        "print(tools.echo(1))",
        "import asyncio\nprint((await asyncio.gather(tools.echo(1), asyncio.sleep(0.1)))[0])",
    ] {
        let mut run = session.run(brief(code));
        let (call, _) = called(&mut run).await;
        tokio::time::sleep(seconds(1.2)).await;
        session.answer(call, Ok(json!(1).into())).await.unwrap();
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.stdout.text, "1\n", "{outcome:?}");
    }
    let code = "import threading\nthreading.Thread(target=tools.echo, args=(1,), daemon=True).start()\nwhile True: pass";
    let started = Instant::now();
    let (cancelled, outcome) = ended(session.run(brief(code))).await;
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 500 });
    assert_eq!(cancelled, [1]);
    assert_eq!(outcome.state, Fate::Kept, "{outcome:?}");
    assert!(started.elapsed() < seconds(30.0), "{:?}", started.elapsed());
    // And it runs again after an answer.
    let mut run = session.run(brief("tools.echo(1)\nimport time\ntime.sleep(5)"));
    let (call, _) = called(&mut run).await;
    session.answer(call, Ok(json!(1).into())).await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 500 });
    assert_eq!(served(&session, "print(tools.echo(6))").await, "6\n");
}

/// Calls work in what a session becomes: restored, taken back, a fork, woken from sleep.
#[tokio::test(flavor = "multi_thread")]
async fn tools_outlive_their_process() {
    let auto = SessionOptions {
        checkpoints: Checkpoints::Every,
        ..options(vec![echo(), tool("chart", &json!({}))])
    };
    let session = session_in(bare_environment(), auto).await;
    assert_eq!(
        served(&session, "from tools import echo\nx = echo(5)\nprint(x)").await,
        "5\n"
    );
    let outcome = serve(&session, "echo(1)\nimport os\nos._exit(1)", echoed).await;
    assert!(
        matches!(outcome.state, Fate::Restored { .. }),
        "{outcome:?}"
    );
    assert_eq!(
        served(&session, "print(echo(x), tools.echo(2))").await,
        "5 2\n"
    );
    let undone = Cell {
        on_failure: OnFailure::Restore,
        ..Cell::from("x = echo(9)\n1 / 0")
    };
    assert!(!serve(&session, undone, echoed).await.is_success());
    assert_eq!(served(&session, "print(echo(x))").await, "5\n");
    // A fork has the same tools, until one is taken from it.
    let fork = session.fork(1).await.unwrap().remove(0);
    assert_eq!(
        served(&fork, "print(echo(x), tools.echo(3))").await,
        "5 3\n"
    );
    fork.revoke("echo");
    let outcome = serve(&fork, "echo(1)", echoed).await;
    assert_eq!(outcome.exception.unwrap().type_name, "tools.ToolDenied");
    assert_eq!(served(&session, "print(echo(x))").await, "5\n");
    fork.close().await.unwrap();
    // Asleep and awake again: also what the code had bound, and what was revoked.
    let kept = |_: &str, _: &Arguments| {
        Ok(ToolResult::Kept {
            marker: marker("chart", 1),
        })
    };
    assert!(
        serve(&session, "c = tools.chart(); import tools as t", kept)
            .await
            .is_success()
    );
    session.revoke("chart");
    session.hibernate().await.unwrap();
    assert_eq!(
        served(&session, "print(echo(x), tools.echo(3), t is tools, c)").await,
        "5 3 True ⟦chart:1⟧\n"
    );
    let mut run = session.run(calling("tools.chart()"));
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::CallDenied { why, .. } => break assert_eq!(why, CallDenial::NotGranted),
            Event::Outcome(outcome) => panic!("{outcome:?}"),
            _ => {}
        }
    }
}

/// A cell makes no more calls than it may, however it makes them.
#[tokio::test(flavor = "multi_thread")]
async fn calls_are_budgeted() {
    let few = SessionOptions {
        limits: Limits {
            calls: 5,
            ..Limits::default()
        },
        ..options(vec![echo()])
    };
    let session = session_in(bare_environment(), few).await;
    let code = "made = 0\ntry:\n    for i in range(10): tools.echo(i); made += 1\nexcept tools.ToolDenied as e: print(made, e)";
    for _ in 0..2 {
        assert_eq!(
            served(&session, code).await,
            "5 a cell may make 5 calls, and this one has made them\n"
        );
    }
}
