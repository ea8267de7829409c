//! A request for a package: name, extras and versions, but no location.
//!
//! A part of PEP 508, by hand: a crate for all of it also reads URLs, paths and markers, which
//! would have to be refused again.

use std::fmt;
use std::str::FromStr;

use super::PackageError;

/// The longest requirement, and the most of them in one list.
const LONGEST: usize = 200;
const MOST: usize = 50;

/// Longest first: `~=` is not `~`, and `==` is not `=`.
const OPERATORS: [&str; 7] = ["==", "!=", "<=", ">=", "~=", "<", ">"];

/// One package, as `pandas`, `pandas>=2,<4` or `pandas[excel]==3.1.1`. No options, paths, URLs or
/// markers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    name: String,
    /// Extras and versions, without spaces.
    rest: String,
}

impl Requirement {
    /// The name of the package in normal form: lower case, `-` between words.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requirements with commas between them, as after `# requires:`.
    ///
    /// ```
    /// let list = belljar_sandbox::Requirement::list("pandas>=2,<4, Humanize")?;
    /// assert_eq!(list[0].to_string(), "pandas>=2,<4");
    /// assert_eq!(list[1].name(), "humanize");
    /// # Ok::<(), belljar_sandbox::PackageError>(())
    /// ```
    pub fn list(text: &str) -> Result<Vec<Self>, PackageError> {
        let mut list: Vec<String> = Vec::new();
        let mut in_extras = false;
        for part in text.split(',') {
            let goes_on = part.trim_start().starts_with(['<', '>', '=', '!', '~']);
            match list.last_mut() {
                Some(previous) if in_extras || goes_on => {
                    previous.push(',');
                    previous.push_str(part);
                }
                _ => list.push(part.to_owned()),
            }
            in_extras = match (part.rfind('['), part.rfind(']')) {
                (Some(open), close) => close.is_none_or(|close| close < open),
                (None, close) => in_extras && close.is_none(),
            };
        }
        if list.len() > MOST {
            return Err(invalid(text, "the list is too long"));
        }
        list.iter()
            .filter(|part| !part.trim().is_empty())
            .map(|part| part.parse())
            .collect()
    }

    /// Whether any version will do, without extras.
    pub(super) fn is_name_alone(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether it can only mean one version.
    pub(super) fn is_pinned(&self) -> bool {
        let versions = self.rest.rsplit(']').next().unwrap_or_default();
        versions.starts_with("==") && !versions.contains([',', '*'])
    }
}

/// The requirements of a cell: the lists after `# requires:` in the comments before its first
/// statement, and those of `%pip install` and its like (`!pip install`, `!uv pip install`) there.
///
/// ```
/// let needs = belljar_sandbox::requires("# requires: humanize\nimport humanize")?;
/// assert_eq!(needs[0].name(), "humanize");
/// # Ok::<(), belljar_sandbox::PackageError>(())
/// ```
pub fn requires(code: &str) -> Result<Vec<Requirement>, PackageError> {
    let mut all = Vec::new();
    let mut lines = code.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line.starts_with('#') {
            let comment = line.trim_start_matches('#').trim_start();
            if let Some(list) = comment.strip_prefix("requires:") {
                all.extend(Requirement::list(list)?);
            }
        } else if line.starts_with(['%', '!']) {
            let mut whole = line.to_owned();
            while let Some(start) = whole.strip_suffix('\\') {
                whole = format!("{start} {}", lines.next().unwrap_or_default());
            }
            if is_other_language(&whole) {
                break;
            }
            all.extend(installed_by(&whole)?);
        } else if !line.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// Whether the rest of a cell that starts so is no Python.
fn is_other_language(line: &str) -> bool {
    let name = line.strip_prefix("%%").map(str::split_whitespace);
    let name = name.and_then(|mut words| words.next());
    name.is_some_and(|name| !matches!(name, "time" | "timeit" | "capture"))
}

/// Options of pip and uv that change nothing here.
const NO_EFFECT: [&str; 13] = [
    "-q",
    "-qq",
    "-qqq",
    "--quiet",
    "-U",
    "-qU",
    "-Uq",
    "--upgrade",
    "--user",
    "--system",
    "--no-cache-dir",
    "--disable-pip-version-check",
    "--break-system-packages",
];

/// The packages of a line such as `%pip install NAME`; none of another line.
fn installed_by(line: &str) -> Result<Vec<Requirement>, PackageError> {
    let mut words = line[1..].split_whitespace().peekable();
    let is_pip = match words.next() {
        Some("pip" | "pip3") => true,
        Some("uv") => words.next() == Some("pip"),
        Some("{sys.executable}" | "python" | "python3") => {
            words.next() == Some("-m") && words.next() == Some("pip")
        }
        _ => false,
    };
    if !is_pip || words.next() != Some("install") {
        return Ok(Vec::new());
    }
    // What the shell does with the output is not pip's.
    let ends = |word: &str| {
        word.starts_with(['|', '&', ';', '>', '#'])
            || word.starts_with("1>")
            || word.starts_with("2>")
    };
    words
        .take_while(|word| !ends(word))
        .filter(|word| !NO_EFFECT.contains(word))
        .map(|word| word.trim_matches(['"', '\'']).parse())
        .collect()
}

/// A name in normal form.
pub(super) fn normalise(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            other => out.push(other.to_ascii_lowercase()),
        }
    }
    out
}

impl FromStr for Requirement {
    type Err = PackageError;

    fn from_str(text: &str) -> Result<Self, PackageError> {
        let wrong = |why| invalid(text, why);
        if text.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !is_name_character(c));
        let (name, rest) = trimmed.split_at(end.unwrap_or(trimmed.len()));
        if !is_name(name) {
            return Err(wrong("it must start with the name of a package"));
        }
        let mut rest = rest.trim_start();
        let mut out = String::new();
        if let Some(inner) = rest.strip_prefix('[') {
            let (extras, after) = inner
                .split_once(']')
                .ok_or_else(|| wrong("its extras are not closed"))?;
            let extras: Vec<&str> = extras.split(',').map(str::trim).collect();
            if !extras.iter().copied().all(is_name) {
                return Err(wrong("its extras are not names"));
            }
            out = format!("[{}]", extras.join(","));
            rest = after.trim_start();
        }
        if !rest.is_empty() {
            let versions: Option<Vec<String>> = rest.split(',').map(version).collect();
            let versions = versions.ok_or_else(|| {
                wrong("only versions may follow the name; no options, paths, URLs or markers")
            })?;
            out.push_str(&versions.join(","));
        }
        Ok(Self {
            name: normalise(name),
            rest: out,
        })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.name, self.rest)
    }
}

fn invalid(text: &str, why: &'static str) -> PackageError {
    PackageError::Requirement {
        text: text.chars().take(LONGEST).collect(),
        why,
    }
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

fn is_name(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(is_name_character)
}

/// One operator and a version, without spaces.
fn version(text: &str) -> Option<String> {
    let text = text.trim();
    let operator = OPERATORS
        .iter()
        .find(|operator| text.starts_with(**operator))?;
    let version = text[operator.len()..].trim_start();
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '!' | '+' | '*' | '-' | '_');
    let good =
        version.starts_with(|c: char| c.is_ascii_alphanumeric()) && version.chars().all(plain);
    good.then(|| format!("{operator}{version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        let list = Requirement::list(text).unwrap();
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_are_cut_between_requirements_and_not_within_them() {
        assert_eq!(list("pandas>=2, humanize"), ["pandas>=2", "humanize"]);
        assert_eq!(
            list("a[x, y] >= 1, < 2 , b_c.D~=1.0,"),
            ["a[x,y]>=1,<2", "b-c-d~=1.0"]
        );
        assert_eq!(
            list("a[x],b[y,z]==1!2.0+cpu"),
            ["a[x]", "b[y,z]==1!2.0+cpu"]
        );
        assert_eq!(list(" "), Vec::<String>::new());
        assert!(Requirement::list(&"a,".repeat(51)).is_err());
    }

    #[test]
    fn only_names_extras_and_versions_are_taken() {
        for bad in [
            "",
            "-r file.txt",
            "--index-url=http://127.0.0.1/",
            "-e .",
            "a --index-url http://127.0.0.1/",
            "a -r b",
            "a @ http://127.0.0.1/a.whl",
            "a@file:///a.whl",
            "git+https://127.0.0.1/a.git",
            "file:a.whl",
            "./a",
            "../a",
            "/a",
            "a/b",
            "a.whl/",
            "~/a",
            "a ; python_version < '4'",
            "a #egg",
            "a\nb",
            "a\n--index-url=x",
            "a\0",
            "ä",
            "a\u{202e}",
            "а",
            "a==",
            "a=1",
            "a===1",
            "a==1 b",
            "a>=$(id)",
            "a>=`id`",
            "a[",
            "a[]",
            "a[-]",
            "a[x]y",
            "a-",
            ".a",
            "_",
            "${HOME}",
        ] {
            assert!(bad.parse::<Requirement>().is_err(), "{bad:?}");
        }
        assert!("a".repeat(201).parse::<Requirement>().is_err());
    }

    #[test]
    fn what_a_cell_requires_stands_before_its_first_statement() {
        let names = |code: &str| -> Vec<String> {
            let all = requires(code).unwrap();
            all.iter().map(ToString::to_string).collect()
        };
        let code = "\n# a comment\n#requires: a>=1,<2, b\n  # requires: c\nx = 1\n# requires: d";
        assert_eq!(names(code), ["a>=1,<2", "b", "c"]);
        assert_eq!(names("x = '# requires: a'"), Vec::<String>::new());
        assert_eq!(names("# it requires: a"), Vec::<String>::new());
        assert!(requires("# requires: -r secrets").is_err());
    }

    #[test]
    fn packages_of_pip_are_those_of_lines_before_the_first_statement() {
        let names = |code: &str| -> Vec<String> {
            let all = requires(code).unwrap_or_else(|error| panic!("{code}: {error}"));
            all.iter().map(ToString::to_string).collect()
        };
        for line in [
            "%pip install a 'b>=1,<2'",
            "!pip install -q a \"b>=1,<2\" > /dev/null 2>&1",
            "!pip3 install --quiet a b>=1,<2 | tail -1",
            "!uv pip install --system a b>=1,<2",
            "%uv pip install a b>=1,<2",
            "!python -m pip install a b>=1,<2",
            "!{sys.executable} -m pip install a b>=1,<2 && echo installed",
            "%matplotlib inline\n# why\n\n!pip install \\\n  a \\\n  b>=1,<2\nimport a",
            "%%time\n%pip install a b>=1,<2",
        ] {
            assert_eq!(names(line), ["a", "b>=1,<2"], "{line}");
        }
        for line in [
            "x = 1\n%pip install a",
            "text = \"\"\"\n!pip install a\n\"\"\"",
            "%%bash\n!pip install a",
            "%%writefile setup.txt\n%pip install a",
            "!pip list",
            "!echo pip install a",
            "%pip",
            "!",
        ] {
            assert_eq!(names(line), Vec::<String>::new(), "{line}");
        }
        for line in [
            "%pip install -r requirements.txt",
            "!pip install git+https://127.0.0.1/a.git",
            "!pip install --index-url http://127.0.0.1/ a",
            "!pip install ./a",
            "!pip install {name}",
        ] {
            assert!(requires(line).is_err(), "{line}");
        }
    }

    #[test]
    fn pinned_is_one_version() {
        let pinned = |text: &str| text.parse::<Requirement>().unwrap().is_pinned();
        assert!(pinned("a==1.0") && pinned("a[x]==1.0"));
        assert!(!pinned("a") && !pinned("a==1.*") && !pinned("a==1,!=2") && !pinned("a>=1"));
    }
}
