//! Words in the languages that we speak.

use belljar_sandbox::protocol::Language;

/// The English or the Chinese.
pub(crate) fn pick<T>(language: Language, [english, chinese]: [T; 2]) -> T {
    match language {
        Language::English => english,
        Language::Chinese => chinese,
    }
}

/// The language of the system, and the variable that says so.
pub(crate) fn of_system() -> (Language, Option<&'static str>) {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let name = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find(set);
    let value = name.and_then(|name| std::env::var(name).ok());
    match value {
        Some(value) if value.starts_with("zh") => (Language::Chinese, name),
        Some(value) if value.starts_with("en") => (Language::English, name),
        _ => (Language::English, None),
    }
}
