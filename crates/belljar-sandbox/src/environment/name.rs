//! The rules for names that come from outside: they become paths, lines and arguments.

use super::EnvironmentError;

const LONGEST: usize = 64;

/// `[a-z0-9][a-z0-9._-]{0,63}`: a name is a directory, so it must never be `.`, `..` or hidden.
pub(super) fn check_name(name: &str) -> Result<(), EnvironmentError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = name.bytes();
    let good = name.len() <= LONGEST
        && bytes.next().is_some_and(plain)
        && bytes.all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'));
    if good {
        Ok(())
    } else {
        Err(EnvironmentError::InvalidName {
            name: name.to_owned(),
        })
    }
}

/// A dotted module name. It is passed to Python as data, never as code, but a typing error should
/// be reported before a build of minutes.
pub(super) fn check_module(module: &str) -> Result<(), EnvironmentError> {
    let identifier = |part: &str| {
        let mut characters = part.chars();
        characters
            .next()
            .is_some_and(|first| first == '_' || first.is_alphabetic())
            && characters.all(|other| other == '_' || other.is_alphanumeric())
    };
    if module.split('.').all(identifier) {
        Ok(())
    } else {
        Err(EnvironmentError::InvalidModule {
            module: module.to_owned(),
        })
    }
}

/// One requirement on one line. Options (`--index-url`, `-r`, `-e`) are refused: they belong to
/// uv's own configuration, and a lock must not depend on them.
pub(super) fn check_package(package: &str) -> Result<(), EnvironmentError> {
    let invalid = |reason| {
        Err(EnvironmentError::InvalidPackage {
            package: package.to_owned(),
            reason,
        })
    };
    let trimmed = package.trim();
    if trimmed.is_empty() {
        invalid("it is empty")
    } else if trimmed.starts_with('-') {
        invalid("options are not allowed; set indexes in the configuration of `uv`")
    } else if trimmed.starts_with('#') {
        invalid("it is a comment")
    } else if package.contains(['\n', '\r', '\0']) {
        invalid("it has more than one line")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules() {
        let longest = "a".repeat(64);
        for good in ["default", "0", "py3.12_data-2", longest.as_str()] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(65);
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "-x",
            "_x",
            "Upper",
            "a/b",
            "a b",
            "数据",
            "a\n",
            "a\0",
            too_long.as_str(),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn modules_are_dotted_identifiers() {
        for good in ["numpy", "matplotlib.pyplot", "_a.b_1", "数据"] {
            assert!(check_module(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "1a",
            "a-b",
            "a;b",
            "a b",
            "os\nimport x",
        ] {
            assert!(check_module(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn packages_are_single_requirements() {
        for good in [
            "six",
            "numpy>=2,<3",
            "pandas[excel]",
            "x ; python_version<'3.12'",
        ] {
            assert!(check_package(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "  ",
            "-r other.txt",
            "--index-url=x",
            "# x",
            "a\nb",
            "a\rb",
        ] {
            assert!(check_package(bad).is_err(), "{bad:?}");
        }
    }
}
