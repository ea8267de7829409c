"""Pages, links and chapters of the book. Used by .ci/book, and by mdbook as a preprocessor.

    book_pages.py --check           SUMMARY.md is complete, links and anchors of all pages exist, examples are those files
    book_pages.py --built DIRECTORY the same for links and anchors of the built book
    book_pages.py                   preprocessor: makes chapters of pages outside of docs/, and mends their links
    book_pages.py supports NAME     whether it is a preprocessor for this renderer
"""

import html
import json
import os
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SUMMARY = DOCS / "SUMMARY.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```[\w,]+\n(.*?)```\n", re.DOTALL)


def pages() -> list[pathlib.Path]:
    found = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob(".github/**/*.md")]
    for pattern in ("crates/*/README.md", "sdk/*/README.md", "fuzz/README.md", "ops/*/README.md"):
        found += ROOT.glob(pattern)
    return sorted(found)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blocks of code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*(```+|~~~+)", line):
            if fence is None:
                fence = found[1]
            elif line.strip() == fence:
                fence = None
        elif fence is None:
            yield number, line


def anchors(page: pathlib.Path) -> set[str]:
    found: set[str] = set()
    seen: dict[str, int] = {}
    for _, line in prose(page.read_text()):
        if heading := re.match(r"#+ (.*)", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def is_relative(target: str) -> bool:
    return not re.match(r"[a-z]+:|/", target)


def broken_links(page: pathlib.Path) -> Iterator[str]:
    for number, line in prose(page.read_text()):
        for target in filter(is_relative, LINK.findall(re.sub(r"(`+).+?\1", "", line))):
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                yield f"{page.relative_to(ROOT)}:{number}: the link leads nowhere: {target}"


def chapters() -> list[pathlib.Path]:
    return [(DOCS / target).resolve() for _, line in prose(SUMMARY.read_text()) for target in LINK.findall(line)]


def check() -> Iterator[str]:
    listed = chapters()
    for page in sorted(set(listed)):
        if listed.count(page) > 1:
            yield f"docs/SUMMARY.md: {page.relative_to(ROOT)} is listed more than once"
    for page in sorted(set(DOCS.glob("**/*.md")) - {*listed, SUMMARY}):
        yield f"docs/SUMMARY.md: {page.relative_to(ROOT)} is missing"
    for page in pages():
        yield from broken_links(page)
        for file, code in EXAMPLE.findall(page.read_text()):
            if code not in (ROOT / file).read_text():
                yield f"{page.relative_to(ROOT)}: the example differs from {file}"


def check_built(directory: pathlib.Path) -> Iterator[str]:
    made_by_mdbook = {"404.html", "print.html", "toc.html"}
    texts = {page: page.read_text() for page in directory.glob("**/*.html") if page.name not in made_by_mdbook}
    ids = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    for page, text in texts.items():
        body = text.split("<main>")[-1].split("</main>")[0]
        for target in re.findall(r'(?:href|src)="([^"]+)"', body):
            path, _, anchor = html.unescape(target).partition("#")
            file = pathlib.Path(os.path.normpath(page.parent / path)) if path else page
            if is_relative(target) and (not file.exists() or (anchor and anchor not in ids.get(file, {anchor}))):
                yield f"{page.relative_to(directory)}: the link leads nowhere: {target}"


def mended(text: str, page: pathlib.Path, places: dict[pathlib.Path, str]) -> str:
    """Links lead to chapters, wherever those are, and to files of docs/; a link to another file becomes its path."""
    here = os.path.dirname(places[page])

    def mend(found: re.Match[str]) -> str:
        label, target = found[1], found[2]
        path, _, anchor = target.partition("#")
        if not is_relative(target) or not path:
            return found[0]
        file = (page.parent / path).resolve()
        place = places.get(file)
        if place is None and file.is_relative_to(DOCS) and file.is_file() and file.suffix != ".md":
            place = str(file.relative_to(DOCS))
        if place is not None:
            return f"[{label}]({os.path.relpath(place, here or '.')}{'#' + anchor if anchor else ''})"
        shown = str(file.relative_to(ROOT))
        return label if label.strip("`") in (shown, file.name) else f"{label} (`{shown}`)"

    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", text, flags=re.DOTALL | re.MULTILINE)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", mend, parts[at])
    return "".join(parts)


def preprocess() -> None:
    _, book = json.load(sys.stdin)
    places = {page: str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)) for page in chapters()}

    def visit(items: list[dict]) -> None:
        for chapter in filter(None, (item.get("Chapter") for item in items if isinstance(item, dict))):
            if source := chapter.get("source_path"):
                page = (DOCS / source).resolve()
                chapter["path"] = places[page]
                chapter["content"] = mended(chapter["content"], page, places)
            visit(chapter["sub_items"])

    visit(book.get("items") or book.get("sections"))
    json.dump(book, sys.stdout)


def main() -> None:
    match sys.argv[1:]:
        case ["supports", *_]:
            return
        case []:
            return preprocess()
        case ["--check"]:
            faults = [*check()]
        case ["--built", directory]:
            faults = [*check_built(pathlib.Path(directory))]
        case _:
            sys.exit(__doc__)
    print("\n".join(faults), end="\n" if faults else "")
    sys.exit(bool(faults))


main()
