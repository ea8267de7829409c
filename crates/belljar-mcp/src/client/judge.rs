//! Which tools of a server are granted, and why the others are not.

use std::collections::HashMap;
use std::fmt;

use belljar_agent::ToolEffects;
use belljar_protocol::visible;
use rmcp::model::Tool;

use super::offer::{Offer, OfferError, words};
use super::pins::Pins;
use super::spec::ServerSpec;

/// A part of a tool definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its description.
    Description,
    /// The schema of its arguments.
    Parameters,
    /// The schema of its results.
    Result,
    /// Its hints about effects.
    Hints,
}

/// Why a tool of a server is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It can't be offered to code.
    Unusable(OfferError),
    /// The settings name other tools of the server.
    NotWanted,
    /// It differs from what was accepted.
    Changed(Vec<Part>),
    /// It is new since the server's tools were accepted.
    New,
    /// It was accepted, or the settings name it, but the server doesn't offer it.
    Missing,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(why) => why.fmt(f),
            Self::NotWanted => f.write_str("the settings name other tools"),
            Self::Changed(parts) => {
                let parts = parts.iter().map(|part| match part {
                    Part::Description => "its description",
                    Part::Parameters => "its parameters",
                    Part::Result => "its result",
                    Part::Hints => "its hints about effects",
                });
                let parts: Vec<&str> = parts.collect();
                write!(f, "changed since it was accepted: {}", parts.join(", "))
            }
            Self::New => f.write_str("new since the server's tools were accepted"),
            Self::Missing => f.write_str("the server no longer offers it"),
        }
    }
}

/// A tool of a server, for people to look at.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// Its name on the server.
    pub name: String,
    /// Its Python signature, if code can call it.
    pub signature: Option<String>,
    /// The server's description, as plain text.
    pub description: String,
    /// Its effects, as far as the server is trusted.
    pub effects: ToolEffects,
    /// Why it is not granted; `None` if it is.
    pub withheld: Option<Withheld>,
}

/// Decides which tools are granted. Two tools with the same Python name are both refused.
pub(super) fn judge(
    server: &str,
    spec: &ServerSpec,
    listed: &[Tool],
    accepted: &Pins,
) -> Vec<(OfferedTool, Option<Offer>)> {
    let offers: Vec<_> = listed
        .iter()
        .map(|tool| Offer::new(server, spec.trusted, tool))
        .collect();
    let mut names: HashMap<&str, usize> = HashMap::new();
    for offer in offers.iter().flatten() {
        *names.entry(offer.python.identifier()).or_default() += 1;
    }
    let wanted = |name: &str| match &spec.tools {
        Some(wanted) => wanted.iter().any(|wanted| wanted == name),
        None => true,
    };
    let mut tools = Vec::new();
    for (tool, offer) in listed.iter().zip(&offers) {
        let withheld = match (offer, accepted.changes(tool)) {
            (Err(why), _) => Some(Withheld::Unusable(why.clone())),
            (Ok(offer), _) if names[offer.python.identifier()] > 1 => {
                let name = offer.python.identifier().to_owned();
                Some(Withheld::Unusable(OfferError::SameName(name)))
            }
            (Ok(_), _) if !wanted(&tool.name) => Some(Withheld::NotWanted),
            (Ok(_), None) => Some(Withheld::New),
            (Ok(_), Some(parts)) if !parts.is_empty() => Some(Withheld::Changed(parts)),
            (Ok(_), Some(_)) => None,
        };
        let offer = offer.as_ref().ok();
        let shown = OfferedTool {
            name: visible(&words(&tool.name, 100)).into(),
            signature: offer.map(Offer::signature),
            description: offer
                .map(|offer| offer.stub.description.clone())
                .unwrap_or_default(),
            effects: offer.map(|offer| offer.effects).unwrap_or_default(),
            withheld,
        };
        tools.push((shown, offer.cloned()));
    }
    let wanted = spec.tools.iter().flatten().map(String::as_str);
    let mut missing: Vec<&str> = accepted.names().chain(wanted).collect();
    missing.sort_unstable();
    missing.dedup();
    missing.retain(|name| !listed.iter().any(|tool| tool.name == *name));
    tools.extend(missing.into_iter().map(|name| {
        let shown = OfferedTool {
            name: visible(&words(name, 100)).into(),
            signature: None,
            description: String::new(),
            effects: ToolEffects::default(),
            withheld: Some(Withheld::Missing),
        };
        (shown, None)
    }));
    tools
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> Vec<Tool> {
        let tool = |name: &&str| json!({"name": name, "inputSchema": {}});
        let tools = names.iter().map(tool).map(serde_json::from_value);
        tools.collect::<Result<_, _>>().unwrap()
    }

    fn withheld(
        spec: &ServerSpec,
        listed: &[Tool],
        accepted: &[Tool],
    ) -> Vec<(String, Option<Withheld>)> {
        let judged = judge("files", spec, listed, &Pins::from_tools(accepted));
        let judged = judged.into_iter();
        judged.map(|(tool, _)| (tool.name, tool.withheld)).collect()
    }

    #[test]
    fn names_that_python_can_not_tell_apart_are_not_granted() {
        let listed = tools(&["a-b", "a_b", "c", "d", "d"]);
        let judged = withheld(&ServerSpec::default(), &listed, &listed);
        for (name, withheld) in judged {
            let is_unusable = matches!(withheld, Some(Withheld::Unusable(_)));
            assert_eq!(is_unusable, name != "c", "{name}: {withheld:?}");
        }
    }

    #[test]
    fn what_was_not_accepted_is_held_back() {
        let (old, mut new) = (tools(&["a", "b", "gone"]), tools(&["a", "b", "c"]));
        new[1].description = Some("something else".into());
        let judged = withheld(&ServerSpec::default(), &new, &old);
        let expected = [
            ("a", None),
            ("b", Some(Withheld::Changed(vec![Part::Description]))),
            ("c", Some(Withheld::New)),
            ("gone", Some(Withheld::Missing)),
        ];
        let expected = expected.map(|(name, withheld)| (name.to_owned(), withheld));
        assert_eq!(judged, expected);
    }

    #[test]
    fn the_settings_choose_among_the_tools() {
        let spec = ServerSpec {
            tools: Some(vec!["a".into(), "z".into()]),
            ..ServerSpec::default()
        };
        let listed = tools(&["a", "b"]);
        let judged = withheld(&spec, &listed, &listed);
        let expected = [
            ("a", None),
            ("b", Some(Withheld::NotWanted)),
            ("z", Some(Withheld::Missing)),
        ];
        let expected = expected.map(|(name, withheld)| (name.to_owned(), withheld));
        assert_eq!(judged, expected);
    }
}
