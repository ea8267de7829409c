use belljar_protocol::ToolStub;
use serde_json::json;

use super::*;

fn granted() -> Vec<ToolSignature> {
    let tool = |name: &str, parameters| {
        ToolSignature::new(&ToolStub {
            name: name.into(),
            description: String::new(),
            parameters,
            result: None,
        })
        .unwrap()
    };
    vec![
        tool("weather", json!({"properties": {}})),
        tool(
            "web-search",
            json!({
                "properties": {
                    "query": {"type": "string"},
                    "from": {"type": "integer"},
                    "kind": {"enum": ["news", "all"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["query"],
            }),
        ),
        tool("anything", json!({})),
    ]
}

/// What is wrong, without how the tool is called: `line tool what`.
fn wrong(code: &str) -> Vec<String> {
    let show = |call: WrongCall| {
        let what = match call.wrong {
            Wrong::NoTool { there } => format!("not in {}", there.join(" ")),
            Wrong::Arguments { fault, .. } => format!("{fault:?}"),
        };
        format!("{} {} {what}", call.line, call.tool)
    };
    let found = wrong_calls(code, &granted(), &BTreeSet::new());
    found.into_iter().map(show).collect()
}

#[test]
fn wrong_calls_are_found() {
    for (code, expected) in [
        (
            "x = 1\ntools.web_serch('a')",
            &["2 web_serch not in web_search weather anything"][..],
        ),
        (
            "await tools.nothing()",
            &["1 nothing not in anything weather web_search"],
        ),
        (
            "f = tools.whether",
            &["1 whether not in weather web_search anything"],
        ),
        (
            "from tools import web_search, wether",
            &["1 wether not in weather web_search anything"],
        ),
        (
            "import tools as t\nt.nope()",
            &["2 nope not in weather anything web_search"],
        ),
        (
            "from tools import web_search as s\ns()",
            &["2 web_search Missing([\"query\"])"],
        ),
        ("tools.web_search()", &["1 web_search Missing([\"query\"])"]),
        (
            "tools.web_search(q='a')",
            &[
                "1 web_search NoParameter(\"q\")",
                "1 web_search Missing([\"query\"])",
            ],
        ),
        ("tools.weather('Oslo')", &["1 weather TooMany(1)"]),
        ("tools.anything(1, a=2)", &["1 anything TooMany(1)"]),
        (
            "tools.web_search('a', query='b')",
            &["1 web_search Twice(\"query\")"],
        ),
        (
            "tools.web_search(3)",
            &["1 web_search Misfit(\"`query`: not of type \\\"string\\\"\")"],
        ),
        (
            "tools.web_search(None)",
            &["1 web_search Misfit(\"`query`: not of type \\\"string\\\"\")"],
        ),
        (
            "tools.web_search('a', from_='3')",
            &["1 web_search Misfit(\"`from_`: not of type \\\"integer\\\"\")"],
        ),
        (
            "tools.web_search('a', -1.5)",
            &["1 web_search Misfit(\"`from_`: not of type \\\"integer\\\"\")"],
        ),
        (
            "tools.web_search('a', kind='x')",
            &["1 web_search Misfit(\"`kind`: not one of [\\\"news\\\",\\\"all\\\"]\")"],
        ),
        (
            "tools.web_search('a', tags=['a', 1])",
            &["1 web_search Misfit(\"an item of `tags`: not of type \\\"string\\\"\")"],
        ),
        (
            "tools.web_search('a', tags={'a': 1})",
            &["1 web_search Misfit(\"`tags`: not of type \\\"array\\\"\")"],
        ),
        (
            "def f():\n    return [tools.weather(i)\n            for i in range(3)]",
            &["2 weather TooMany(1)"],
        ),
        (
            "print(f'{tools.weather(1)}', tools.weather(tools.nope))",
            &[
                "1 weather TooMany(1)",
                "1 weather TooMany(1)",
                "1 nope not in weather anything web_search",
            ],
        ),
    ] {
        assert_eq!(wrong(code), expected, "{code}");
    }
}

#[test]
fn what_may_be_right_is_let_through() {
    for code in [
        "tools.weather(); tools.web_search('a', 3, kind='news', tags=('a', 'b'))",
        "tools.web_search(query=f'{x}', from_=n, tags=[x]); tools.anything(a=1, b='c')",
        "tools.web_search('a', 3.0, **{'from': 1}); tools.web_search('a', **{'from': 1})",
        // An optional argument of `None` is left out.
        "tools.web_search('a', from_=None, kind=None)",
        "tools.web_search(*a); tools.web_search(**k); tools.weather(*a)",
        "try: tools.weather()\nexcept tools.ToolError: pass\nprint(tools.__doc__, dir(tools))",
        "from tools import ToolDenied, weather\nweather()",
        // It is something else here.
        "tools = [1]\ntools.append(2)",
        "for tools in x: tools.run()",
        "def f(tools): tools.run()",
        "import my.tools as tools\ntools.run()",
        "from my import tools\ntools.run()",
        "from tools import weather\nweather = 3\nweather(1)",
        "from tools import weather as f, web_search as f\nf(1)",
        "import tools as t\nt = 1\nt.run()",
        "other.tools.run(); weather(1); t.nope()",
        // It may be.
        "if hasattr(tools, 'x'): tools.x()",
        "tools.mine = print\ntools.mine(1)",
        "exec(s)\ntools.nope()",
        "tools.nope(",
    ] {
        assert_eq!(wrong(code), [""; 0], "{code}");
    }
    let known = BTreeSet::from(["tools".to_owned()]);
    assert_eq!(wrong_calls("tools.head()", &granted(), &known), []);
}

#[test]
fn a_session_may_have_no_tools() {
    let none = |code| wrong_calls(code, &[], &BTreeSet::new()).len();
    assert_eq!(none("tools.search('a')"), 1);
    assert_eq!(none("import tools\ntools.search('a')"), 0);
    assert_eq!(none("from tools import search"), 0);
}

#[test]
fn what_is_wrong_is_told_in_words() {
    let code = "tools.web_serch('a')\ntools.web_search(q='a')\ntools.weather(1)";
    let found = wrong_calls(code, &granted(), &BTreeSet::new());
    assert_eq!(
        words_wrong_calls(&found[..2], Language::English),
        "The code was not run: calls of tools in it are wrong.\n\
         - line 1: there is no `tools.web_serch`; there are: `web_search`, `weather`, `anything`\n\
         - line 2: no parameter `q`; it is `tools.web_search(query: str, from_: int = None, \
         kind: Literal[\"news\", \"all\"] = None, tags: list[str] = None) -> Any`\n\
         Run the whole of it again, corrected."
    );
    assert_eq!(
        words_wrong_calls(&found[3..], Language::Chinese),
        "代码未运行：其中的工具调用有误。\n\
         - 第 3 行：1 个参数过多；正确形式为 `tools.weather() -> Any`\n\
         请改正后重新运行全部代码。"
    );
}

#[test]
fn few_are_told_of_many() {
    let found = wrong_calls(
        &"tools.nope(1)\n".repeat(1000),
        &granted(),
        &BTreeSet::new(),
    );
    assert_eq!(found.len(), TOLD);
    assert_eq!(found[TOLD - 1].line, TOLD);
}

/// A tree that is as deep as the code is long.
#[test]
fn deep_code_is_looked_through() {
    for part in [".b", "()", "[0]", "+1"] {
        let code = format!("tools.nope{}", part.repeat(65_000 / part.len()));
        assert_eq!(wrong(&code).len(), 1, "{part}");
    }
}

proptest::proptest! {
    #[test]
    fn any_code_is_looked_through(parts in proptest::collection::vec(proptest::sample::select(vec![
        "import tools", " as t", "\n", "from tools import weather", ", nope", "tools.", "t.", "weather",
        "web_search", "nope", "(", ")", "'a'", "3", "-", "**k", "*a", "kind=", ", ", "[", "]", "é", "await ",
    ]), 0..30)) {
        let code = parts.concat();
        for call in wrong_calls(&code, &granted(), &BTreeSet::new()) {
            assert!((1..=code.split('\n').count()).contains(&call.line));
        }
    }
}
