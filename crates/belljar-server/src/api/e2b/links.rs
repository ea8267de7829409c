//! Symbolic links of a sandbox, which clients of this wire expect to be followed.
//!
//! Files are opened without following any link, as on every other way. Here a path is only rewritten, so code that changes
//! a link meanwhile gets an error, or another of its own files.

use belljar_sandbox::Session;

use super::filesystem::{HOME, absolute};

/// The most links of a path, as Linux has it.
const MAX_LINKS: usize = 40;

/// The longest path, as Linux has it.
const MAX_PATH: usize = 4096;

/// The path with each link replaced by where it leads. A path that can't be followed stays as it is: its links are a
/// loop, or lead out of what can be reached from outside.
pub(super) fn resolve(session: &Session, path: &str) -> String {
    let link = |path: &str| session.read_link(path).ok().flatten();
    follow(path, link).unwrap_or_else(|| path.to_owned())
}

/// The same for all but the last name: what is renamed or removed is the link itself.
pub(super) fn resolve_parent(session: &Session, path: &str) -> String {
    let whole = path.trim_end_matches('/');
    match whole.rsplit_once('/') {
        Some((parent, name)) if !parent.is_empty() => {
            format!("{}/{name}", resolve(session, parent))
        }
        _ => whole.to_owned(),
    }
}

fn follow(path: &str, link: impl Fn(&str) -> Option<String>) -> Option<String> {
    let names = |path: &str| -> Vec<String> { path.split('/').rev().map(str::to_owned).collect() };
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        absolute(path)
    };
    let (mut top, rest) = root(&path)?;
    let (mut done, mut left) = (top.to_owned(), names(rest));
    // Of a request, not of a link: refused as always.
    if left.iter().any(|name| name == "..") {
        return None;
    }
    let mut links = 0;
    while let Some(name) = left.pop() {
        if matches!(name.as_str(), "" | ".") {
            continue;
        }
        if name == ".." {
            if done.len() == top.len() {
                return None;
            }
            done.truncate(done.rfind('/')?);
            continue;
        }
        let here = format!("{done}/{name}");
        if here.len() > MAX_PATH {
            return None;
        }
        let Some(target) = link(&here) else {
            done = here;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        let mut rest = target.as_str();
        if rest.starts_with('/') {
            (top, rest) = root(&target)?;
            top.clone_into(&mut done);
        }
        left.extend(names(rest));
    }
    Some(done)
}

/// The directory that an absolute path is in, of those that can be reached from outside, and the rest of the path.
fn root(path: &str) -> Option<(&'static str, &str)> {
    let roots = [
        (HOME, HOME),
        ("/workspace", HOME),
        ("/mnt/data", HOME),
        ("/tmp", "/tmp"),
    ];
    roots.into_iter().find_map(|(name, root)| {
        let rest = path.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((root, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(path: &str) -> Option<String> {
        follow(path, |path| {
            let target = match path {
                "/home/user/link" => "target",
                "/home/user/a/up" => "../out",
                "/home/user/far" => "/workspace/a/b",
                "/home/user/temporary" => "/tmp/x",
                "/tmp/back" => "/home/user/link",
                "/home/user/outside" => "/etc/passwd",
                "/home/user/above" => "../../etc",
                "/home/user/loop" => "./loop",
                _ => return None,
            };
            Some(target.to_owned())
        })
    }

    #[test]
    fn links_are_followed_within_the_sandbox() {
        for (path, expected) in [
            ("plain/file", "/home/user/plain/file"),
            ("link/missing", "/home/user/target/missing"),
            ("/home/user/a/up/x", "/home/user/out/x"),
            ("~/far", "/home/user/a/b"),
            ("/workspace/temporary/y", "/tmp/x/y"),
            ("/tmp/back", "/home/user/target"),
        ] {
            assert_eq!(followed(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn what_leads_out_or_nowhere_is_not_followed() {
        for path in [
            "outside",
            "above/passwd",
            "loop",
            "loop/x",
            "/etc",
            "link/../x",
            "/home/user/../x",
        ] {
            assert_eq!(followed(path), None, "{path}");
        }
        let growing = |_: &str| Some(format!("{}x", "a/".repeat(2000)));
        assert_eq!(follow("x", growing), None);
    }
}
