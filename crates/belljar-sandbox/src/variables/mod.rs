//! Environment variables and secrets of sessions and cells ([why](../../../docs/adr/0042-variables-and-secrets.md)).

mod scrub;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use scrub::{Scrubber, StreamScrubber};

/// The most variables, and the most secrets.
const MAX_COUNT: usize = 64;
/// The most bytes of a name.
const MAX_NAME: usize = 128;
/// The most bytes of all names and values.
const MAX_BYTES: usize = 64 << 10;
/// Shorter secrets would be replaced in ordinary text.
const MIN_SECRET: usize = 8;
/// The most bytes of a secret: a private key fits.
const MAX_SECRET: usize = 8 << 10;

/// What the sandbox itself sets, and what a shell reads before its first command.
const RESERVED: [&str; 25] = [
    "BASH_ENV",
    "ENV",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "IFS",
    "JE_ARROW_MALLOC_CONF",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "MKL_NUM_THREADS",
    "MPLBACKEND",
    "NO_PROXY",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_THREAD_TIMEOUT",
    "PATH",
    "PWD",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
const RESERVED_PREFIXES: [&str; 3] = ["BELLJAR_", "LD_", "PYTHON"];

/// Why an environment variable is refused. No value is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// The name is not an identifier.
    #[error(
        "`{}` cannot be the name of a variable\nhint: letters, digits and underscores, at most {MAX_NAME}, the first one not a digit",
        shown(.0)
    )]
    Name(String),
    /// The sandbox itself sets it, or it changes how programs start.
    #[error(
        "the variable `{0}` is reserved: the sandbox sets it, or it changes how programs start\nhint: choose another name, or set it in a cell"
    )]
    Reserved(String),
    /// The value can't be that of an environment variable.
    #[error("the value of `{0}` contains a NUL character")]
    Nul(String),
    /// It is a variable and a secret.
    #[error("`{0}` is both a variable and a secret\nhint: give it once")]
    Both(String),
    /// The secret is too short to be scrubbed.
    #[error(
        "the secret `{0}` is shorter than {MIN_SECRET} bytes: it would be replaced in ordinary text\nhint: take a longer one, or give it as a variable, which is not scrubbed"
    )]
    Short(String),
    /// The secret is too long.
    #[error("the secret `{0}` is longer than {MAX_SECRET} bytes\nhint: put a file instead")]
    Long(String),
    /// There are too many.
    #[error("there are more than {MAX_COUNT} variables, or more than {MAX_COUNT} secrets")]
    Count,
    /// They are too long together.
    #[error(
        "the variables are longer than {} KiB together\nhint: put a file instead",
        MAX_BYTES >> 10
    )]
    Bytes,
    /// The session has no such secret, so no fork can get it.
    #[error("the session has no secret `{}`", shown(.0))]
    Unknown(String),
}

/// Of a name that may be anything.
fn shown(name: &str) -> String {
    name.chars()
        .take(MAX_NAME)
        .flat_map(char::escape_debug)
        .collect()
}

fn check_name(name: &str) -> Result<(), VariableError> {
    let mut bytes = name.bytes();
    let begins = bytes
        .next()
        .is_some_and(|byte| byte == b'_' || byte.is_ascii_alphabetic());
    if !begins
        || name.len() > MAX_NAME
        || !bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    {
        return Err(VariableError::Name(name.to_owned()));
    }
    let is_reserved = RESERVED.contains(&name)
        || RESERVED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix));
    if is_reserved {
        return Err(VariableError::Reserved(name.to_owned()));
    }
    Ok(())
}

fn check<'a>(
    variables: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<(), VariableError> {
    let (mut count, mut bytes) = (0, 0);
    for (name, value) in variables {
        check_name(name)?;
        if value.contains('\0') {
            return Err(VariableError::Nul(name.clone()));
        }
        count += 1;
        bytes += name.len() + value.len() + 2;
    }
    match () {
        () if count > MAX_COUNT => Err(VariableError::Count),
        () if bytes > MAX_BYTES => Err(VariableError::Bytes),
        () => Ok(()),
    }
}

/// Environment variables, with valid names and within bounds.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The variables, if their names are allowed.
    ///
    /// # Errors
    /// [`VariableError`]: which one is refused, and why.
    pub fn new(variables: BTreeMap<String, String>) -> Result<Self, VariableError> {
        check(variables.iter())?;
        Ok(Self(variables))
    }

    /// Names and values.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

/// Without the values: people put credentials into variables, too.
impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Secrets: environment variables that the host stores nowhere, and replaces by `[secret NAME]` in
/// all that a session sends. They can't be serialised, and are not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// The secrets, if their names are allowed and their lengths can be scrubbed.
    ///
    /// # Errors
    /// [`VariableError`]: which one is refused, and why.
    pub fn new(secrets: BTreeMap<String, String>) -> Result<Self, VariableError> {
        check(secrets.iter())?;
        for (name, value) in &secrets {
            if value.len() < MIN_SECRET {
                return Err(VariableError::Short(name.clone()));
            }
            if value.len() > MAX_SECRET {
                return Err(VariableError::Long(name.clone()));
            }
        }
        Ok(Self(secrets))
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn scrubber(&self) -> Arc<Scrubber> {
        Arc::new(Scrubber::new(&self.0))
    }

    /// Those that a fork gets.
    #[must_use]
    pub fn granted(&self, grant: &SecretGrant) -> Self {
        let mut granted = self.clone();
        granted.0.retain(|name, _| grant.includes(name));
        granted
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Which secrets of a session its forks get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretGrant {
    /// None. Copies that code made of their values are still in the fork's memory.
    #[default]
    None,
    /// Those with these names.
    Only(Vec<String>),
    /// All.
    All,
}

impl SecretGrant {
    fn includes(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Only(names) => names.iter().any(|one| one == name),
            Self::All => true,
        }
    }
}

/// The variables and secrets of an awake session.
pub(crate) struct SessionVariables {
    values: BTreeMap<String, String>,
    secrets: Secrets,
    /// Of all secrets that its memory may hold: a fork has that of its parent.
    scrubber: Arc<Scrubber>,
}

impl SessionVariables {
    pub(crate) fn new(variables: &Variables, secrets: &Secrets) -> Result<Self, VariableError> {
        if let Some(name) = secrets
            .0
            .keys()
            .find(|name| variables.0.contains_key(*name))
        {
            return Err(VariableError::Both(name.clone()));
        }
        let mut values = variables.0.clone();
        values.extend(secrets.0.clone());
        let scrubber = secrets.scrubber();
        Ok(Self {
            values,
            secrets: secrets.clone(),
            scrubber,
        })
    }

    /// What its code and its commands get.
    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    pub(crate) fn scrubber(&self) -> &Arc<Scrubber> {
        &self.scrubber
    }

    /// The variables of a fork, and the names of those that it does not get.
    pub(crate) fn for_fork(
        &self,
        grant: &SecretGrant,
    ) -> Result<(Self, Vec<String>), VariableError> {
        if let SecretGrant::Only(names) = grant
            && let Some(unknown) = names
                .iter()
                .find(|name| !self.secrets.0.contains_key(*name))
        {
            return Err(VariableError::Unknown(unknown.clone()));
        }
        let secrets = self.secrets.granted(grant);
        let is_withheld =
            |name: &String| self.secrets.0.contains_key(name) && !secrets.0.contains_key(name);
        let withheld: Vec<String> = self
            .values
            .keys()
            .filter(|name| is_withheld(name))
            .cloned()
            .collect();
        let mut values = self.values.clone();
        values.retain(|name, _| !is_withheld(name));
        let scrubber = Arc::clone(&self.scrubber);
        Ok((
            Self {
                values,
                secrets,
                scrubber,
            },
            withheld,
        ))
    }
}

impl fmt::Debug for SessionVariables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.values.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::rootfs::{command_environment, proxy_variables, template_environment};

    fn one(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn names_that_are_none_or_reserved_are_refused() {
        for name in [
            "",
            "A=B",
            "1A",
            "A B",
            "A\0",
            "Ä",
            "a-b",
            "\n",
            &"A".repeat(129),
        ] {
            let refused = Variables::new(one(name, "x"));
            assert_eq!(refused, Err(VariableError::Name(name.into())), "{name:?}");
        }
        for name in [
            "PATH",
            "LD_PRELOAD",
            "PYTHONSTARTUP",
            "BELLJAR_X",
            "BASH_ENV",
            "https_proxy",
        ] {
            let refused = Variables::new(one(name, "x"));
            assert_eq!(refused, Err(VariableError::Reserved(name.into())), "{name}");
        }
        assert_eq!(
            Variables::new(one("A", "x\0")),
            Err(VariableError::Nul("A".into()))
        );
        Variables::new(one("_a9", "=\n")).unwrap();
    }

    #[test]
    fn all_that_the_sandbox_sets_is_reserved() {
        let template = template_environment();
        let template = template.iter().filter_map(|line| line.split('=').next());
        let command =
            command_environment("/usr/bin/python3".as_ref(), "/home".as_ref(), 1, true, true);
        let proxy = proxy_variables();
        for name in template
            .chain(command.keys().map(String::as_str))
            .chain(proxy.into_keys())
        {
            assert_eq!(
                check_name(name),
                Err(VariableError::Reserved(name.into())),
                "{name}"
            );
        }
    }

    #[test]
    fn counts_and_bytes_are_bounded() {
        let many = |count: usize, length: usize| -> BTreeMap<String, String> {
            (0..count)
                .map(|n| (format!("A{n}"), "x".repeat(length)))
                .collect()
        };
        Variables::new(many(64, 900)).unwrap();
        assert_eq!(Variables::new(many(65, 1)), Err(VariableError::Count));
        assert_eq!(Variables::new(many(2, 40_000)), Err(VariableError::Bytes));
        Secrets::new(one("A", "12345678")).unwrap();
        assert_eq!(
            Secrets::new(one("A", "1234567")),
            Err(VariableError::Short("A".into()))
        );
        assert_eq!(
            Secrets::new(one("A", &"x".repeat(8193))),
            Err(VariableError::Long("A".into()))
        );
    }

    #[test]
    fn no_value_is_printed() {
        let variables = Variables::new(one("PLAIN", "in the open")).unwrap();
        let secrets = Secrets::new(one("TOKEN", "s3cret-value")).unwrap();
        let session = SessionVariables::new(&variables, &secrets).unwrap();
        let text = format!(
            "{variables:?} {secrets:?} {session:?} {:?}",
            session.scrubber()
        );
        assert!(text.contains("TOKEN") && text.contains("PLAIN"), "{text}");
        assert!(
            !text.contains("s3cret") && !text.contains("in the open"),
            "{text}"
        );
    }

    #[test]
    fn a_fork_gets_what_is_granted() {
        let secrets = BTreeMap::from([
            ("A".to_owned(), "a".repeat(8)),
            ("B".to_owned(), "b".repeat(8)),
        ]);
        let secrets = Secrets::new(secrets).unwrap();
        let variables = Variables::new(one("C", "c")).unwrap();
        let session = SessionVariables::new(&variables, &secrets).unwrap();
        let names = |of: &SessionVariables| of.values.keys().cloned().collect::<String>();
        let (fork, withheld) = session.for_fork(&SecretGrant::None).unwrap();
        assert_eq!(
            (names(&fork).as_str(), withheld.concat().as_str()),
            ("C", "AB")
        );
        let (fork, withheld) = session
            .for_fork(&SecretGrant::Only(vec!["B".into()]))
            .unwrap();
        assert_eq!(
            (names(&fork).as_str(), withheld.concat().as_str()),
            ("BC", "A")
        );
        // A fork can't pass on what it has not got.
        assert!(fork.for_fork(&SecretGrant::Only(vec!["A".into()])).is_err());
        let (fork, withheld) = session.for_fork(&SecretGrant::All).unwrap();
        assert_eq!((names(&fork).as_str(), withheld.len()), ("ABC", 0));
        let both = SessionVariables::new(&Variables::new(one("A", "x")).unwrap(), &secrets);
        assert_eq!(both.unwrap_err(), VariableError::Both("A".into()));
    }
}
