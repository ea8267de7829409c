//! The language of this command.

use std::sync::OnceLock;

use belljar_sandbox::protocol::Language;
use belljar_sandbox::protocol::texts::Texts;

static ASKED: OnceLock<Language> = OnceLock::new();

/// Takes note of `--language`.
pub(crate) fn ask(code: &str) {
    if let Some(language) = Language::of_locale(code) {
        let _ = ASKED.set(language);
    }
}

/// The language of `--language`.
pub(crate) fn asked() -> Option<Language> {
    ASKED.get().copied()
}

/// The language of messages: the flag, the settings file, the system.
pub(crate) fn language() -> Language {
    static CHOSEN: OnceLock<Language> = OnceLock::new();
    *CHOSEN.get_or_init(|| match crate::settings::load() {
        Ok(settings) => settings.language,
        Err(_) => asked().unwrap_or(of_system().0),
    })
}

/// What this command says.
pub(crate) fn texts() -> &'static Texts {
    language().texts()
}

/// The language of the system, and the variable that says so.
pub(crate) fn of_system() -> (Language, Option<&'static str>) {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let name = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find(set);
    let value = name.and_then(|name| std::env::var(name).ok());
    match value.and_then(|value| Language::of_locale(&value)) {
        Some(language) => (language, name),
        None => (Language::default(), None),
    }
}
