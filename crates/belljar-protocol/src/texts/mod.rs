//! What the host says to people and to models, as data: one catalogue per language.
//!
//! The [`Texts`] list every message with the types of its arguments, and each language is one file
//! with a value of it. A missing message, a superfluous one or a wrong argument does not compile.
//! Why so: `docs/adr/0036-words-as-data.md`.

mod catalogue;
mod en;
mod zh;

pub use catalogue::{
    BenchTexts, DemoTexts, DoctorTexts, EnvTexts, ErrorTexts, KernelTexts, OutcomeTexts,
    PromptTexts, ReplyMarks, RunTexts, ServiceTexts, SessionTexts, SettingTexts, SettingsTexts,
    Texts, ToolTexts,
};

/// Declares the languages: the variant, and the module with its catalogue, which is also its code.
macro_rules! languages {
    ($($(#[$meta:meta])* $name:ident = $code:ident,)*) => {
        /// A language of text for people or models.
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Language {
            $($(#[$meta])* $name,)*
        }

        impl Language {
            /// All languages.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The code of each, in the same order.
            pub const CODES: &'static [&'static str] = &[$(stringify!($code),)*];

            /// The catalogue.
            pub fn texts(self) -> &'static Texts {
                match self {
                    $(Self::$name => &$code::TEXTS,)*
                }
            }

            /// The code, as in `--language` and at the beginning of a locale.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($code),)*
                }
            }
        }
    };
}

// To add a language: a file beside this one, its `mod` above, and its line here.
languages! {
    /// English.
    #[default]
    English = en,
    /// Simplified Chinese, in the wording of RES-1.
    Chinese = zh,
}

impl Language {
    /// The language of a code, or of a locale such as `zh_CN.UTF-8`.
    pub fn of_locale(locale: &str) -> Option<Self> {
        let code = locale.split(['_', '-', '.', '@']).next()?;
        let found = Self::ALL.iter().find(|language| language.code() == code);
        found.copied()
    }

    /// What is said to models about runs.
    pub fn prompts(self) -> &'static PromptTexts {
        &self.texts().prompts
    }

    /// A digest of all texts for models in this language: requests of runs with another one may differ.
    pub fn prompts_version(self) -> String {
        let texts = self.texts();
        let mut hash = Fnv::default();
        for (name, text) in texts
            .prompts
            .samples(1)
            .into_iter()
            .chain(texts.outcome.samples(1))
        {
            hash.write(name.as_bytes());
            hash.write(b"=");
            hash.write(text.as_bytes());
            hash.write(b"\0");
        }
        format!("{:016x}", hash.0)
    }
}

/// 64-bit FNV-1a: the same in every build, and nobody gains by a collision.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text of each language, with two sets of arguments.
    fn all(language: Language) -> Vec<(String, String)> {
        let texts = language.texts();
        let samples = |nth| texts.samples(nth).into_iter();
        samples(0).chain(samples(1)).collect()
    }

    /// Completeness is checked by the compiler; that a text was translated is checked here.
    #[test]
    fn every_text_is_there_in_every_language() {
        let english = all(Language::English);
        assert!(english.len() > 700, "{}", english.len());
        for language in Language::ALL {
            let texts = all(*language);
            assert_eq!(texts.len(), english.len());
            for ((name, text), (_, in_english)) in texts.iter().zip(&english) {
                assert!(!text.trim().is_empty(), "{language:?}: `{name}` is empty");
                assert!(
                    *language == Language::English || text != in_english,
                    "{language:?}: `{name}` is as in English: {text}"
                );
            }
        }
    }

    /// Texts with the same arguments use all of them, or none of the languages does.
    #[test]
    fn arguments_are_used_in_every_language() {
        let used = |language| -> Vec<(String, bool)> {
            let samples = |nth| Language::texts(language).samples(nth);
            let pairs = samples(0).into_iter().zip(samples(1));
            pairs.map(|((name, a), (_, b))| (name, a != b)).collect()
        };
        let english = used(Language::English);
        for language in Language::ALL {
            assert_eq!(used(*language), english, "{language:?}");
        }
    }

    /// The texts for models as they were when the benchmark's score was measured. After a change,
    /// measure again, and write the new digest here.
    #[test]
    fn prompts_are_those_that_were_measured() {
        assert_eq!(Language::English.prompts_version(), "58fa488f05fe5162");
        assert_eq!(Language::Chinese.prompts_version(), "6a658eee147a37d2");
    }

    #[test]
    fn languages_are_found_by_code_and_locale() {
        for (locale, language) in [
            ("zh", Some(Language::Chinese)),
            ("zh_CN.UTF-8", Some(Language::Chinese)),
            ("zh-Hans", Some(Language::Chinese)),
            ("en", Some(Language::English)),
            ("en_GB@euro", Some(Language::English)),
            ("C", None),
            ("POSIX", None),
            ("", None),
            ("zhx", None),
        ] {
            assert_eq!(Language::of_locale(locale), language, "{locale}");
        }
        let codes: Vec<&str> = Language::ALL.iter().map(|one| one.code()).collect();
        assert_eq!(codes, Language::CODES);
    }
}
