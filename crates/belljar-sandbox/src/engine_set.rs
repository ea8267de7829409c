//! Several engines, and which of them a request gets.

use belljar_protocol::Walls;

use crate::engine::Engine;

/// The engines that a program offers, the default first: one for each environment and isolation.
#[derive(Clone, Debug)]
pub struct EngineSet {
    first: Engine,
    others: Vec<Engine>,
}

impl From<Engine> for EngineSet {
    fn from(engine: Engine) -> Self {
        Self::new(engine, [])
    }
}

/// Why a request gets none of the engines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotOffered {
    /// There is no such environment, but these.
    #[error("there is no such environment; there are: {}", .0.join(", "))]
    Environment(Vec<String>),
    /// The environment is not offered with this isolation, but with these.
    #[error("this isolation is not offered; environment `{environment}` has: {}", .offered.join(", "))]
    Isolation {
        /// The environment.
        environment: String,
        /// What it is offered with, the default first.
        offered: Vec<&'static str>,
    },
    /// The isolation is below the least one.
    #[error(
        "the least isolation is `{}`; environment `{environment}` has: {}",
        .least.as_str(), .offered.join(", ")
    )]
    TooWeak {
        /// The least one.
        least: Walls,
        /// The environment.
        environment: String,
        /// What it is offered with, the default first.
        offered: Vec<&'static str>,
    },
}

impl EngineSet {
    /// The default engine, and further ones: of other environments, or of another isolation.
    pub fn new(first: Engine, others: impl IntoIterator<Item = Engine>) -> Self {
        Self {
            first,
            others: others.into_iter().collect(),
        }
    }

    /// The default engine.
    pub fn first(&self) -> &Engine {
        &self.first
    }

    /// All of them, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &Engine> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Names of the environments, the default first.
    pub fn environments(&self) -> Vec<&str> {
        distinct(self.iter().map(|engine| engine.environment().name()))
    }

    /// The isolation that the engines have, the default first.
    pub fn isolation(&self) -> Vec<Walls> {
        distinct(self.iter().map(Engine::walls))
    }

    /// The engine for a request, by the names of environment and isolation. Without an environment, it is the default
    /// one. Without an isolation, it is the environment's first, or the weakest that is strong enough.
    pub fn choose(
        &self,
        environment: Option<&str>,
        isolation: Option<&str>,
        least: Option<Walls>,
    ) -> Result<&Engine, NotOffered> {
        let environment = environment.unwrap_or_else(|| self.first.environment().name());
        let is_asked = |engine: &&Engine| engine.environment().name() == environment;
        let engines: Vec<&Engine> = self.iter().filter(is_asked).collect();
        if engines.is_empty() {
            let names = self.environments().into_iter().map(str::to_owned);
            return Err(NotOffered::Environment(names.collect()));
        }
        let environment = environment.to_owned();
        let offered = engines.iter().map(|engine| engine.walls().as_str());
        let offered: Vec<&str> = offered.collect();
        let candidate = engines.iter().find(|engine| {
            // Without a name it is the first.
            isolation.is_none_or(|name| engine.walls().as_str() == name)
        });
        let Some(&candidate) = candidate else {
            return Err(NotOffered::Isolation {
                environment,
                offered,
            });
        };
        let Some(least) = least else {
            return Ok(candidate);
        };
        let is_enough = |engine: &&Engine| engine.walls().is_at_least(least);
        let found = match isolation {
            _ if is_enough(&candidate) => Some(candidate),
            Some(_) => None,
            None => {
                let enough = engines.into_iter().filter(is_enough);
                enough.min_by_key(|engine| engine.walls().strength())
            }
        };
        found.ok_or(NotOffered::TooWeak {
            least,
            environment,
            offered,
        })
    }
}

/// Each of them once, in the order in which they come.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::environment::Environment;

    fn environment(name: &str, image: bool) -> Environment {
        let image = image.then(|| json!({"name": name, "container": {}}));
        let described = json!({
            "name": name, "python": "/python", "version": "3.12.0", "packages": [], "preload": [], "fonts": [],
            "read_only_paths": [], "image": image,
        });
        serde_json::from_value(described).unwrap()
    }

    /// Two environments of the host with two kinds of walls, and an image.
    fn engines() -> EngineSet {
        let full = |name| Engine::builder(environment(name, false)).build();
        let gvisor = |name| Engine::builder(environment(name, false)).gvisor().build();
        let image = Engine::builder(environment("image", true)).build();
        let others = [gvisor("a"), gvisor("b"), full("b"), image];
        EngineSet::new(full("a"), others)
    }

    fn chosen<'a>(
        engines: &'a EngineSet,
        environment: Option<&str>,
        isolation: Option<&str>,
        least: Option<Walls>,
    ) -> Result<(&'a str, Walls), NotOffered> {
        let engine = engines.choose(environment, isolation, least)?;
        Ok((engine.environment().name(), engine.walls()))
    }

    #[test]
    fn the_first_is_the_default() {
        let engines = engines();
        assert_eq!(engines.environments(), ["a", "b", "image"]);
        let walls = [Walls::Full, Walls::Gvisor, Walls::Container];
        assert_eq!(engines.isolation(), walls);
        let choose = |environment, isolation| chosen(&engines, environment, isolation, None);
        assert_eq!(choose(None, None), Ok(("a", Walls::Full)));
        assert_eq!(choose(Some("b"), None), Ok(("b", Walls::Gvisor)));
        assert_eq!(choose(None, Some("gvisor")), Ok(("a", Walls::Gvisor)));
        assert_eq!(choose(Some("b"), Some("full")), Ok(("b", Walls::Full)));
        assert_eq!(choose(Some("image"), None), Ok(("image", Walls::Container)));
        let refused = choose(Some("c"), None).unwrap_err().to_string();
        assert_eq!(
            refused,
            "there is no such environment; there are: a, b, image"
        );
        // Not even by a name that there is: the environment comes first.
        for name in ["container", "none", "unfiltered", "Full", ""] {
            let refused = choose(None, Some(name)).unwrap_err().to_string();
            let words = "this isolation is not offered; environment `a` has: full, gvisor";
            assert_eq!(refused, words, "{name}");
        }
    }

    #[test]
    fn nothing_is_below_the_least() {
        let engines = engines();
        let choose =
            |environment, isolation, least| chosen(&engines, environment, isolation, Some(least));
        assert_eq!(choose(None, None, Walls::Container), Ok(("a", Walls::Full)));
        assert_eq!(choose(None, None, Walls::Gvisor), Ok(("a", Walls::Gvisor)));
        // The default stays the default where it is strong enough.
        assert_eq!(
            choose(Some("b"), None, Walls::Full),
            Ok(("b", Walls::Gvisor))
        );
        let strong = choose(None, Some("gvisor"), Walls::Full);
        assert_eq!(strong, Ok(("a", Walls::Gvisor)));
        let weak = choose(Some("b"), Some("full"), Walls::Gvisor);
        let words = "the least isolation is `gvisor`; environment `b` has: gvisor, full";
        assert_eq!(weak.unwrap_err().to_string(), words);
        let image = choose(Some("image"), None, Walls::Full);
        let words = "the least isolation is `full`; environment `image` has: container";
        assert_eq!(image.unwrap_err().to_string(), words);
    }
}
