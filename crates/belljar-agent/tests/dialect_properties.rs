//! What holds for all replies: no panic, linear time, and that a canonical reply, corrupted as
//! models corrupt it, still says the same.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Instant;

use belljar_agent::{
    Action, Dialect, Mending, Parsed, RawToolCall, ReplyParts, ToolSpec, Unparsed,
};
use belljar_protocol::Language;
use proptest::prelude::*;
use serde_json::json;

const DIALECTS: [Dialect; 4] = [
    Dialect::NativeTools,
    Dialect::JsonAction,
    Dialect::Tags,
    Dialect::FencedCode,
];

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
    };
    vec![
        tool("python"),
        tool("compute_with_python"),
        tool("read_file"),
        tool("answer"),
    ]
}

fn parse(
    dialect: Dialect,
    text: &str,
    calls: &[RawToolCall],
    truncated: bool,
) -> Result<Parsed, Unparsed> {
    let reply = ReplyParts {
        text,
        tool_calls: calls,
        truncated,
    };
    dialect.parse(&reply, &tools())
}

/// Pieces that parsers look for, so that random texts meet them.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "```",
            "```python\n",
            "\n```\n",
            "````",
            "~~~",
            "<execution-code>",
            "</execution-code>",
            "</exec",
            "<final-answer>",
            "<tool name=\"",
            "\">",
            "<think>",
            "</think>",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "'",
            "\\",
            "\\n",
            "\\u",
            "\\ud83d",
            "\"code\":",
            "\"action\": \"execute_code\"",
            ",",
            ":",
            "//",
            "/*",
            "#",
            "\"\"\"",
            "FINAL:",
            "Output:",
            ">>> ",
            "“",
            "”",
            "\u{feff}",
            "\u{200b}",
            "\n",
            " ",
            "print(1)",
            "python\n",
            "&lt;",
            "<![CDATA[",
            "true",
            "None",
            "1e9",
            "<tool_call>",
            "{\"name\": \"python\", \"arguments\": ",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Code that is Python whatever the words are.
fn code() -> impl Strategy<Value = String> {
    let word = "[a-z][a-z0-9]{0,5}x";
    let string = "[a-zA-Z0-9 ,.:;!?{}\\[\\]()<>&#%/`äé你“”-]{0,20}";
    let statement = prop_oneof![
        (word, 0..1000_i32).prop_map(|(name, value)| format!("{name} = {value}")),
        (word, string).prop_map(|(name, text)| format!("{name} = \"{text}\"")),
        string.prop_map(|text| format!("print('{text}')")),
        (word, string).prop_map(|(name, text)| format!("{name} = {{\"a\": '{text}', \"b\": 2}}")),
        (word, 1..9)
            .prop_map(|(name, n)| format!("for {name} in range({n}):\n    print({name}, \"\\n\")")),
        word.prop_map(|name| format!(
            "def {name}(a, b=None):\n    \"\"\"Adds.\n\n    Twice.\"\"\"\n    return a + b"
        )),
        word.prop_map(|name| format!("{name} = [v for v in \"a b\".split(\" \") if v != '']")),
        Just("import re\nprint(re.findall(r\"\\d+\", \"a1b22\"))".to_owned()),
    ];
    prop::collection::vec(statement, 1..6).prop_map(|statements| statements.join("\n"))
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        code().prop_map(|code| Action::python(&code)),
        "[a-zA-Z0-9äé你][a-zA-Z0-9 ,.äé你%$\n]{0,60}[a-z.]".prop_map(|text| Action::answer(&text)),
        "[a-z]{1,9}\\.csv".prop_map(|path| Action::Tool {
            name: "read_file".into(),
            arguments: json!({ "path": path, "tool_call_purpose": "to \"see\" it" }),
            call_id: None,
        }),
    ]
}

/// What to do to a canonical reply, and the mending that must be reported.
type Corruption = (&'static str, fn(&str) -> String, Option<Mending>);

fn in_fence(text: &str) -> String {
    format!("```json\n{text}\n```")
}

/// For replies of any kind.
const ANY: [Corruption; 3] = [
    (
        "byte order mark",
        |t| format!("\u{feff}{t}"),
        Some(Mending::InvisibleRemoved),
    ),
    (
        "thoughts",
        |t| format!("<think>\nHm {{ ``` <code>\n</think>\n\n{t}"),
        None,
    ),
    ("lines of another system", |t| t.replace('\n', "\r\n"), None),
];
const JSON: [Corruption; 6] = [
    ("fence", in_fence, Some(Mending::FenceRemoved)),
    (
        "prose",
        |t| format!("Sure, here it is:\n\n{t}\n\nI hope this helps."),
        Some(Mending::ProseAroundJson),
    ),
    (
        "raw line breaks",
        |t| {
            t.replace("\\\\n", "\u{1}")
                .replace("\\n", "\n")
                .replace('\u{1}', "\\\\n")
        },
        None,
    ),
    (
        "trailing comma",
        |t| format!("{},}}", t.trim_end().trim_end_matches('}')),
        None,
    ),
    (
        "no closing brace",
        |t| t.trim_end().trim_end_matches('}').to_owned(),
        None,
    ),
    (
        "comment",
        |t| t.replacen('{', "{ // my action\n", 1),
        Some(Mending::JsonComments),
    ),
];
const TAGS: [Corruption; 5] = [
    (
        "half a closing tag",
        |t| t.trim_end().trim_end_matches('>').to_owned(),
        Some(Mending::TagClosed),
    ),
    (
        "closing tag cut",
        |t| {
            let t = t.trim_end();
            t[..t.rfind("</").unwrap()].to_owned()
        },
        Some(Mending::TagClosed),
    ),
    (
        "attributes",
        |t| t.replacen("<execution-code>", "<execution-code lang=\"python\">", 1),
        None,
    ),
    (
        "underscores",
        |t| {
            t.replace("execution-code", "execution_code")
                .replace("final-answer", "final_answer")
        },
        None,
    ),
    (
        "prose",
        |t| format!("I do it now.\n\n{t}\nThat was it."),
        None,
    ),
];
const FENCED: [Corruption; 2] = [
    ("prose", |t| format!("I do it now.\n\n{t}"), None),
    (
        "no closing fence",
        |t| {
            let t = t.trim_end();
            t.trim_end_matches('`').to_owned()
        },
        None,
    ),
];

/// For the code itself.
const CODE: [Corruption; 5] = [
    (
        "language line",
        |c| format!("python\n{c}"),
        Some(Mending::LanguageLineRemoved),
    ),
    ("fence", |c| format!("```python\n{c}\n```"), None),
    (
        "indented",
        |c| format!("    {}", c.replace('\n', "\n    ")),
        None,
    ),
    (
        "prompts",
        |c| {
            c.lines()
                .map(|line| {
                    if line.starts_with(' ') || line.is_empty() {
                        format!("... {line}\n")
                    } else {
                        format!(">>> {line}\n")
                    }
                })
                .collect()
        },
        Some(Mending::PromptsRemoved),
    ),
    ("empty lines", |c| format!("\n\n{c}\n\n"), None),
];

fn with_code(action: &Action, change: fn(&str) -> String) -> Option<Action> {
    match action {
        Action::Tool {
            name, arguments, ..
        } if name == "python" => Some(Action::python(&change(arguments["code"].as_str()?))),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(text in hostile(), arguments in hostile(), truncated: bool) {
        let calls = [RawToolCall { id: None, name: "python".into(), arguments }];
        for dialect in DIALECTS {
            for calls in [&calls[..], &[]] {
                match parse(dialect, &text, calls, truncated) {
                    Ok(parsed) => {
                        prop_assert!(!parsed.actions.is_empty());
                        let answers = parsed.actions.iter().any(|a| matches!(a, Action::Answer { .. }));
                        let alone = parsed.actions.len() == 1;
                        prop_assert!(!answers || alone);
                    }
                    Err(unparsed) => {
                        for language in [Language::English, Language::Chinese] {
                            prop_assert!(unparsed.repair_request(language).len() < 3000);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_read(action in action(), thought in prop::option::of("[A-Z][a-z ,]{0,20}[a-z]\\.")) {
        for dialect in DIALECTS {
            let written = dialect.render(thought.as_deref(), std::slice::from_ref(&action));
            let parsed = parse(dialect, &written.text, &written.tool_calls, false).unwrap();
            prop_assert_eq!(&parsed.actions, std::slice::from_ref(&action), "{:?}: {}", dialect, written.text);
            prop_assert_eq!(&parsed.thought, &thought);
            prop_assert_eq!(&parsed.mended, &[], "{:?}: {}", dialect, written.text);
        }
    }

    #[test]
    fn what_is_corrupted_is_mended(action in action(), dialect in 1..4_usize, which: prop::sample::Index, also: prop::sample::Index, inner: prop::sample::Index) {
        let dialect = DIALECTS[dialect];
        let own: &[Corruption] = match dialect {
            Dialect::JsonAction => &JSON,
            Dialect::Tags => &TAGS,
            _ => &FENCED,
        };
        let (code_name, change, code_note) = CODE[inner.index(CODE.len())];
        let corrupted = with_code(&action, change);
        // Fences inside of fences are no code of this action in Markdown.
        let corrupted = corrupted.filter(|_| dialect != Dialect::FencedCode || code_name != "fence");
        let written = dialect.render(None, &[corrupted.clone().unwrap_or_else(|| action.clone())]).text;
        let (name, corrupt, note) = own[which.index(own.len())];
        let (any_name, any, any_note) = ANY[also.index(ANY.len())];
        let text = any(&corrupt(&written));
        let parsed = parse(dialect, &text, &[], false);
        let parsed = parsed.map_err(|e| TestCaseError::fail(format!("{name}, {any_name}, {code_name}: {e:?} in {text}")))?;
        prop_assert_eq!(&parsed.actions, &[action], "{}, {}, {}: {}", name, any_name, code_name, text);
        for note in [note, any_note, code_note.filter(|_| corrupted.is_some())].into_iter().flatten() {
            prop_assert!(parsed.mended.contains(&note), "{:?} is not told of {}", note, text);
        }
    }
}

/// A megabyte of what parsers stumble on takes less than a second in each dialect; and what takes
/// ten times as long for four times the length is not linear.
#[test]
fn heavy_hostile_replies_take_linear_time() {
    let most = [
        "<",
        "{",
        "`",
        "[{",
        "\"",
        "<execution-code>",
        "```python\n",
        "{\"code\": \"",
    ];
    let others = [
        "```\n",
        "```a\nx```\n",
        "</execution-code>\n",
        "<execution-code",
        "<think>",
        "<think></think>",
        "{\"a\":",
        "'",
        "[",
        "(",
        "\\",
        "\\\"",
        "not ",
        "1+",
        "a.",
        "\n",
        " ",
        "FINAL",
        "Output:\n",
        "\"\"\"",
        "/*",
        "#",
        "<tool name=\"",
        "<tool_call>{",
        "{\"name\": 1}",
        "“",
        "&lt;",
        ">>> ",
        "x = 1\\n",
        "if x:\n ",
        "\"code\": \"x\", ",
        "<execution-code>(</execution-code>",
        "```python\n(\n```\n",
    ];
    // The best of some, unless the first is good enough: others may be busy.
    let seconds = |dialect, text: &str, enough: f64| {
        let mut best = f64::MAX;
        for _ in 0..8 {
            let start = Instant::now();
            let _ = parse(dialect, text, &[], false);
            best = best.min(start.elapsed().as_secs_f64());
            if best <= enough {
                break;
            }
        }
        best
    };
    let mut slow = Vec::new();
    for dialect in DIALECTS {
        for piece in most {
            let text = piece.repeat((1 << 20) / piece.len());
            let took = seconds(dialect, &text, 1.0);
            if took > 1.0 {
                slow.push(format!("{took:.2} s {dialect:?} {piece:?}"));
            }
        }
        for piece in others {
            let text = |size: usize| {
                let many = piece.repeat(size / piece.len());
                match dialect {
                    Dialect::NativeTools => many,
                    Dialect::JsonAction => {
                        format!("{{\"action\": \"execute_code\", \"code\": \"{many}")
                    }
                    Dialect::Tags => format!("<execution-code>\n{many}\n</execution-code>"),
                    Dialect::FencedCode => format!("```python\n{many}\n```"),
                }
            };
            let short = seconds(dialect, &text(1 << 15), 0.03);
            let enough = f64::max(0.3, 10.0 * short);
            let long = seconds(dialect, &text(1 << 17), enough);
            if long > enough {
                slow.push(format!("{short:.3} {long:.3} s {dialect:?} {piece:?}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// Code at the size that is still judged, of shapes that make a parser recurse.
#[test]
fn deep_code_does_not_overflow_the_stack() {
    for piece in [
        "(",
        "[",
        "not ",
        "1+",
        "a.",
        "f()(",
        "-",
        "lambda:",
        "a if b else ",
        "a**",
        "if x:\n ",
        "f()",
        "a[0]",
        "{",
        "x=",
        "f\"{",
        "a and ",
        "a<",
        "*",
        "await ",
    ] {
        let code = piece.repeat(60 * 1024 / piece.len());
        for code in [code.clone() + "1", code] {
            let _ = parse(
                Dialect::FencedCode,
                &format!("```python\n{code}\n```"),
                &[],
                false,
            );
        }
    }
}
