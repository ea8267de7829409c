//! Descriptions of the tools that code may call, for the model.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use belljar_protocol::texts::PromptTexts;
use belljar_protocol::{Language, ToolStub, plain, visible};
use belljar_sandbox::ToolSignature;

/// Up to so many tools are described; of more only the names are listed.
const DESCRIBED: usize = 60;
/// The most characters of a signature, and of what is said of a tool.
const SIGNATURE: usize = 300;
const SENTENCE: usize = 160;
/// The most bytes of names.
const NAMES: usize = 16 << 10;

/// The part of the system prompt on tools; empty where there are none.
pub(crate) fn tools_text(tools: &[ToolStub], language: Language) -> String {
    // A tool that Python can't call is granted to no session.
    let callable = |stub| Some((stub, ToolSignature::new(stub).ok()?));
    let tools: Vec<(&ToolStub, ToolSignature)> = tools.iter().filter_map(callable).collect();
    if tools.is_empty() {
        return String::new();
    }
    let texts = language.prompts();
    let mut text = texts.tools_module.to_owned();
    if tools.len() > DESCRIBED {
        names(&tools, texts, &mut text);
    } else {
        for (stub, signature) in &tools {
            let _ = write!(text, "- {}", shown_signature(signature));
            let sentence = first_sentence(&stub.description);
            if !sentence.is_empty() {
                text.push_str(texts.tools_colon);
                text.push_str(&line(sentence, SENTENCE));
            }
            text.push('\n');
        }
    }
    text.push_str(texts.tools_calling);
    text
}

/// Names alone, those with the same first word on one line.
fn names(tools: &[(&ToolStub, ToolSignature)], texts: &PromptTexts, text: &mut String) {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, signature) in tools {
        let name = signature.identifier();
        let first = name.split('_').find(|word| !word.is_empty());
        groups.entry(first.unwrap_or(name)).or_default().push(name);
    }
    let mut told = 0;
    // Those without relatives share a line.
    let (alone, several): (Vec<_>, Vec<_>) =
        groups.into_values().partition(|names| names.len() == 1);
    for group in several.into_iter().chain([alone.concat()]) {
        let mut comma = "- ";
        for name in group {
            if text.len() < NAMES {
                let _ = write!(text, "{comma}{name}");
                comma = ", ";
                told += 1;
            }
        }
        if comma == ", " {
            text.push('\n');
        }
    }
    let more = tools.len() - told;
    if more > 0 {
        text.push_str(&texts.tools_more(more));
    }
    text.push_str(texts.tools_help);
}

/// Up to the first full stop before another sentence, or the end of the line.
fn first_sentence(description: &str) -> &str {
    let first = description.trim().lines().next().unwrap_or_default();
    let ends = first.match_indices(['.', '!', '?', '。', '！', '？']);
    let is_end = |(at, stop): (usize, &str)| {
        let end = at + stop.len();
        let next = first[end..].strip_prefix(' ').unwrap_or_default();
        // Of `e.g. this` it is none.
        let ends = stop.len() > 1 || next.starts_with(|c: char| !c.is_lowercase());
        ends.then_some(end)
    };
    let mut ends = ends.filter_map(is_end);
    &first[..ends.next().unwrap_or(first.len())]
}

/// A signature as a model is shown it.
pub(super) fn shown_signature(signature: &ToolSignature) -> String {
    line(&signature.to_string(), SIGNATURE)
}

/// Text of somebody else on one line: plain, without disguise, and cut.
fn line(text: &str, most: usize) -> String {
    let plain = plain(text);
    let shown = visible(&plain);
    match shown.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> ToolStub {
        ToolStub {
            name: name.into(),
            description: description.into(),
            parameters: json!({"properties": {"city": {"type": "string"}}, "required": ["city"]}),
            result: Some(json!({"type": "number"})),
        }
    }

    #[test]
    fn tools_are_described() {
        let tools = [
            tool(
                "weather",
                "The temperature, e.g. in Oslo. In degrees.\nMore.",
            ),
            tool("北京", "no name in Python"),
            tool("web-search", ""),
        ];
        let text = tools_text(&tools, Language::English);
        let functions = "host:\n- weather(city: str) -> float: The temperature, e.g. in Oslo.\n\
            - web_search(city: str) -> float\nCall one as `tools.NAME(...)`: it blocks";
        assert!(text.contains(functions), "{text}");
        let text = tools_text(
            &[tool("weather", "城市的温度。单位为度。")],
            Language::Chinese,
        );
        let function = "函数：\n- weather(city: str) -> float：城市的温度。\n用 `tools.NAME(...)`";
        assert!(text.contains(function), "{text}");
        assert_eq!(tools_text(&[], Language::English), "");
        assert_eq!(tools_text(&[tool("北京", "")], Language::Chinese), "");
    }

    /// L10: what a tool says of itself is one short line, and hides nothing.
    #[test]
    fn descriptions_are_plain_and_short() {
        let hostile = format!("a\x1b[2J\u{202e}{}", "b".repeat(10_000));
        let mut stub = tool("weather", &hostile);
        stub.parameters = json!({"properties": {
            "a": {"enum": [format!("\u{202e}\n- other(): {}", "c".repeat(10_000))]},
        }});
        let text = tools_text(&[stub], Language::English);
        assert!(text.len() < 1200, "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.contains("a<U+202E>bbb") && text.contains("Literal[\"<U+202E>\\n- oth"),
            "{text}"
        );
    }

    #[test]
    fn of_many_tools_only_names_are_told() {
        let mut tools: Vec<ToolStub> = (0..60).map(|n| tool(&format!("git_{n}"), "x")).collect();
        assert!(tools_text(&tools, Language::English).contains("- git_59(city"));
        tools.extend([tool("weather", "x"), tool("search", "x")]);
        let text = tools_text(&tools, Language::English);
        assert!(text.contains("\n- git_0, git_1, git_2, "), "{text}");
        assert!(
            text.contains(", git_59\n- search, weather\n`help(tools.NAME)`"),
            "{text}"
        );
        assert!(!text.contains("city"), "{text}");

        let long = |n: usize| tool(&format!("a_{}{n}", "b".repeat(90)), "x");
        let many: Vec<ToolStub> = (0..1000).map(long).collect();
        let text = tools_text(&many, Language::Chinese);
        assert!(
            text.len() < NAMES + 1000 && text.contains("个：`dir(tools)`"),
            "{}",
            text.len()
        );
    }
}
