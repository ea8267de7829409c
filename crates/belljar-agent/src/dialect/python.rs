//! Whether code is Python, and making it Python.

use ruff_python_ast::{Expr, Mod, Stmt};
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};

use super::{Mended, Mending, fences};

/// Longer code is not judged: it is taken as it stands.
const JUDGED: usize = 64 * 1024;
/// Code of up to this length can't make a chain that is too deep for any thread.
const SHALLOW: usize = 512;
/// Nesting past this is not judged valid; the interpreter's own parser gives up at 200 brackets.
const DEPTH: u16 = 100;

/// Parses code, and hands the result to `look`.
///
/// The parser bounds its own depth, but not that of chains such as `a.b.c` or `1+1+1`, whose tree is
/// as deep as they are long and is dropped by recursion. So longer code gets a stack of its own: for
/// 64 KiB of code less than 1 KiB of stack for each byte, reserved and mostly never touched.
pub(crate) fn with_syntax<T: Send>(
    code: &str,
    look: impl FnOnce(&Parsed<Mod>) -> T + Send,
) -> Option<T> {
    let parse = move || look(&parse_here(code));
    if code.len() <= SHALLOW {
        return Some(parse());
    }
    if code.len() > JUDGED {
        return None;
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(JUDGED << 10);
        thread.spawn_scoped(scope, parse).ok()?.join().ok()
    })
}

/// The same on this thread's stack, which must have a kilobyte for each byte of code.
pub(crate) fn parse_here(code: &str) -> Parsed<Mod> {
    let options = ParseOptions::from(Mode::Module).with_max_recursion_depth(DEPTH);
    parse_unchecked(code, options)
}

pub(super) fn is_valid(code: &str) -> bool {
    with_syntax(code, Parsed::has_valid_syntax).unwrap_or(true)
}

/// Whether text without any mark is a program rather than prose: valid, and it does something.
pub(super) fn is_program(text: &str) -> bool {
    let acts = |statement: &Stmt| match statement {
        Stmt::Expr(expression) => matches!(&*expression.value, Expr::Call(_) | Expr::Await(_)),
        Stmt::Pass(_) | Stmt::AnnAssign(_) => false,
        _ => true,
    };
    let look = |parsed: &Parsed<Mod>| match parsed.syntax() {
        Mod::Module(module) => parsed.has_valid_syntax() && module.body.iter().any(acts),
        Mod::Expression(_) => false,
    };
    with_syntax(text, look).unwrap_or(false)
}

/// Another reading of code, if there is one.
type Rewrite = fn(&str) -> Option<String>;

/// Code as a model wrote it, made Python where that is certain.
pub(super) fn mend(raw: &str, mended: &mut Mended) -> String {
    let raw = raw.replace("\r\n", "\n");
    let mut code = trim(&raw);
    if let Some(inner) = fences::unwrap(code) {
        code = trim(inner);
        mended.add(Mending::FenceRemoved);
    }
    if let Some((first, rest)) = code.split_once('\n')
        && is_language(first.trim())
    {
        code = trim(rest);
        mended.add(Mending::LanguageLineRemoved);
    }
    if code.is_empty() || is_valid(code) {
        return code.to_owned();
    }
    let rewrites: [(Mending, Rewrite); 6] = [
        (Mending::PromptsRemoved, without_prompts),
        (Mending::Dedented, dedented),
        (Mending::EscapesUndone, unescaped),
        (Mending::SmartQuotes, plain_quotes),
        (Mending::EntitiesUndone, without_entities),
        (Mending::FenceRemoved, without_fence_lines),
    ];
    for (mending, rewrite) in rewrites {
        if let Some(better) = rewrite(code)
            && is_valid(&better)
        {
            mended.add(mending);
            return trim(&better).to_owned();
        }
    }
    // Several at once.
    let mut better = code.to_owned();
    let mut taken = Vec::new();
    for (mending, rewrite) in rewrites {
        if let Some(next) = rewrite(&better) {
            better = next;
            taken.push(mending);
        }
    }
    if taken.len() > 1 && is_valid(&better) {
        for mending in taken {
            mended.add(mending);
        }
        return trim(&better).to_owned();
    }
    code.to_owned()
}

/// Without empty lines around, and without space at the end.
fn trim(code: &str) -> &str {
    let code = code.trim_end();
    let blank = code.len() - code.trim_start().len();
    let start = code[..blank].rfind('\n').map_or(0, |at| at + 1);
    &code[start..]
}

pub(super) fn is_language(word: &str) -> bool {
    ["python", "py", "python3", "ipython", "python3.12"]
        .into_iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

/// `>>> ` and `... ` removed, and the lines between that show output.
fn without_prompts(code: &str) -> Option<String> {
    let prompt = |line: &str| -> Option<String> {
        let line = line.trim_start();
        ["In [", ">>>", "..."].iter().find_map(|mark| {
            let rest = line.strip_prefix(mark)?;
            let rest = if *mark == "In [" {
                rest.split_once("]:")?.1
            } else {
                rest
            };
            Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
        })
    };
    prompt(code.lines().next()?)?;
    let lines: Vec<String> = code.lines().filter_map(prompt).collect();
    Some(lines.join("\n"))
}

fn dedented(code: &str) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let lines = || code.lines().filter(|line| !line.trim().is_empty());
    // A model often starts the first line at the margin and indents all others.
    let least = match lines().map(indent).min()? {
        0 => lines().skip(1).map(indent).min()?,
        least => least,
    };
    (least > 0).then(|| {
        let cut = |line: &str| line[least.min(indent(line))..].to_owned();
        code.lines().map(cut).collect::<Vec<_>>().join("\n")
    })
}

/// One line in which `\n` stands for a new line.
fn unescaped(code: &str) -> Option<String> {
    if code.contains('\n') || !code.contains("\\n") {
        return None;
    }
    let mut out = String::with_capacity(code.len());
    let mut characters = code.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => {}
            Some(c @ ('"' | '\'' | '\\')) => out.push(c),
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
    }
    Some(out)
}

fn plain_quotes(code: &str) -> Option<String> {
    const DOUBLE: [char; 4] = ['“', '”', '„', '‟'];
    const SINGLE: [char; 4] = ['‘', '’', '‚', '‛'];
    (code.contains(DOUBLE) || code.contains(SINGLE))
        .then(|| code.replace(DOUBLE, "\"").replace(SINGLE, "'"))
}

fn without_entities(code: &str) -> Option<String> {
    code.contains('&').then_some(())?;
    let out = code
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&apos;", "'")
        .replace("&amp;", "&");
    (out != code).then_some(out)
}

fn without_fence_lines(code: &str) -> Option<String> {
    code.contains("```").then(|| {
        let kept = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("```"));
        kept.collect::<Vec<_>>().join("\n")
    })
}
