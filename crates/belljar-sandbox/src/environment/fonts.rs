//! Finding font files that draw Chinese: in the packages first, then on the host.

use std::path::{Path, PathBuf};

/// Parts of the file names of fonts with all of simplified Chinese, the best first: regular
/// sans-serif faces read best in plots.
const KNOWN: [&str; 11] = [
    "notosanssc",
    "notosanscjk",
    "sourcehansans",
    "wqymicrohei",
    "wqyzenhei",
    "notoserifsc",
    "notoserifcjk",
    "sourcehanserif",
    "simhei",
    "uming",
    "ukai",
];

/// Where distributions put such fonts (fonts-noto-cjk, fonts-wqy-*, fonts-arphic-* and their
/// equivalents in the families of Fedora, Arch and Alpine).
const HOST_DIRECTORIES: [&str; 11] = [
    "/usr/share/fonts/opentype/noto",
    "/usr/share/fonts/noto-cjk",
    "/usr/share/fonts/noto",
    "/usr/share/fonts/google-noto-cjk",
    "/usr/share/fonts/google-noto-sans-cjk-fonts",
    "/usr/share/fonts/truetype/wqy",
    "/usr/share/fonts/wqy-microhei",
    "/usr/share/fonts/wqy-zenhei",
    "/usr/share/fonts/wenquanyi",
    "/usr/share/fonts/truetype/arphic",
    "/usr/local/share/fonts",
];

/// How deep fonts lie in packages: `package/resources/fonts/file`.
const DEEPEST: usize = 4;
/// A bound on the work, far above any real set of packages.
const MOST_DIRECTORIES: usize = 50_000;

/// The fonts in these directories of packages, or else those of the host. The best first.
pub(super) fn find<'a>(library_directories: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let found = find_in(library_directories.map(Path::to_path_buf).collect());
    if found.is_empty() {
        find_in(HOST_DIRECTORIES.map(PathBuf::from).to_vec())
    } else {
        found
    }
}

fn find_in(roots: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting: Vec<(PathBuf, usize)> = roots.into_iter().map(|root| (root, 1)).collect();
    let mut seen = 0;
    while let Some((directory, depth)) = waiting.pop() {
        seen += 1;
        if seen > MOST_DIRECTORIES {
            break;
        }
        // What cannot be read here could not be read by a session either.
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && depth < DEEPEST && entry.file_name() != "__pycache__" {
                waiting.push((entry.path(), depth + 1));
            } else if let Some(rank) = rank(&entry.path())
                && entry.path().is_file()
            {
                found.push((rank, entry.path()));
            }
        }
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The place of a file in the order of preference; `None` when it is no font we know.
fn rank(path: &Path) -> Option<(bool, usize)> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    if !matches!(extension.as_str(), "ttf" | "otf" | "ttc") {
        return None;
    }
    let name: String = path
        .file_stem()?
        .to_str()?
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    let family = KNOWN.iter().position(|known| name.contains(known))?;
    // A font whose only name is its family has one weight or all of them.
    let other_weight = ["bold", "black", "light", "thin", "medium", "mono"]
        .iter()
        .any(|weight| name.contains(weight));
    Some((other_weight, family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fonts_are_found_in_order_of_preference() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for file in [
            "zhplot/fonts/NotoSansSC-Regular.ttf",
            "zhplot/fonts/NotoSansSC-Bold.ttf",
            "other/wqy-microhei.ttc",
            "other/NotoSerifSC-Regular.otf",
            "other/DejaVuSans.ttf",
            "other/NotoSansSC-Regular.txt",
            "too/deep/for/us/NotoSansSC.otf",
            "p/__pycache__/simhei.ttf",
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = find([root, root].into_iter());
        let expected = [
            "zhplot/fonts/NotoSansSC-Regular.ttf",
            "other/wqy-microhei.ttc",
            "other/NotoSerifSC-Regular.otf",
            "zhplot/fonts/NotoSansSC-Bold.ttf",
        ];
        assert_eq!(found, expected.map(|file| root.join(file)));
    }
}
