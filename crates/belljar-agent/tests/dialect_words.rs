//! Texts for a model: how to act, and what was wrong.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use belljar_agent::{COMPUTE, Dialect, PLAN, ReplyParts, ToolSpec, find_tool};
use belljar_protocol::Language;
use serde_json::json;

fn tools() -> Vec<ToolSpec> {
    let spec = |name| find_tool(name).unwrap().spec(Language::English);
    vec![spec(COMPUTE), spec(PLAN)]
}

fn repair(dialect: Dialect, text: &str, language: Language) -> String {
    let reply = ReplyParts {
        text,
        tool_calls: &[],
        truncated: false,
    };
    let unparsed = dialect.parse(&reply, &tools()).unwrap_err();
    unparsed.repair_request(language)
}

/// AGT-2: the request says what was wrong, where, and shows the form once.
#[test]
fn a_repair_request_is_precise() {
    let text = "{\"thought\": \"t\", \"action\": exec the code}";
    let asked = repair(Dialect::JsonAction, text, Language::English);
    assert!(asked.contains("a value was expected near «"), "{asked}");
    assert!(asked.contains("exec the code"), "{asked}");
    assert_eq!(asked.matches("\"execute_code\"").count(), 1, "{asked}");
    let asked = repair(Dialect::Tags, "I am not sure.", Language::Chinese);
    assert!(asked.contains("«I am not sure.»"), "{asked}");
    assert_eq!(asked.matches("<execution-code>").count(), 1, "{asked}");
}

/// TOL-1: an unknown tool is an error that lists the known ones, also a nearly right name.
#[test]
fn unknown_tools_are_not_guessed() {
    let call = "<tool name=\"compute_with_pyton\">\n{\"code\": \"1\"}\n</tool>";
    for language in [Language::English, Language::Chinese] {
        let asked = repair(Dialect::Tags, call, language);
        for name in [
            "`compute_with_pyton`",
            "`compute_with_python`",
            "`recursive_plan_tree_todo`",
            "`python`",
        ] {
            assert!(asked.contains(name), "{asked}");
        }
    }
}

/// AGT-2: the fields and actions of the plan, and the tools beyond it.
#[test]
fn the_schema_names_all_actions() {
    let schema = Dialect::JsonAction.response_schema(&tools()).unwrap();
    let actions = json!([
        "execute_code",
        "debug_error",
        "provide_answer",
        "compute_with_python",
        "recursive_plan_tree_todo",
    ]);
    assert_eq!(schema["properties"]["action"]["enum"], actions);
    let plain = Dialect::JsonAction.response_schema(&[]).unwrap();
    assert_eq!(plain["properties"].get("arguments"), None);
    assert_eq!(Dialect::Tags.response_schema(&tools()), None);
}

/// Instructions name what there is, in both languages.
#[test]
fn instructions_name_the_tools() {
    for dialect in [Dialect::JsonAction, Dialect::Tags, Dialect::FencedCode] {
        for language in [Language::English, Language::Chinese] {
            let text = dialect.instructions(&tools(), language);
            assert!(text.contains("- `compute_with_python`: "), "{text}");
            assert!(text.contains("print"), "{text}");
        }
        let text = dialect.instructions(&[], Language::English);
        assert!(!text.contains("compute"), "{text}");
    }
}
