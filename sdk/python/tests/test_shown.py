"""Outcomes in notebooks and terminals. What they hold was made by hostile code."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from belljar import Display, Outcome, Session
from belljar._mime import TABLE
from belljar._shown import safe

SCRIPT = "<script>alert(1)</script>"
ATTACKS = [
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    '"></iframe><script>alert(1)</script>',
    "' onload='alert(1)",
    "</pre></td></table><script>alert(1)</script>",
    "<!--<script>alert(1)</script>-->",
    "javascript:alert(1)",
]


class Tags(HTMLParser):
    """The tags of a page and their attributes, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def harmless(page: str) -> None:
    for tag, attributes in Tags(page).found:
        assert tag in {"pre", "table", "thead", "tbody", "tr", "th", "td", "p", "img", "iframe"}, page
        assert not [name for name in attributes if name.startswith("on")], page
        if tag == "iframe":
            assert attributes["sandbox"] == ""
            assert (attributes["srcdoc"] or "").startswith('<meta http-equiv="Content-Security-Policy"')
        elif tag == "img":
            assert set(attributes) == {"src"} and (attributes["src"] or "").startswith("data:image/")
        else:
            assert not attributes, page


def display(**parts: str) -> Display:
    names = {"text": "text/plain", "html": "text/html", "svg": "image/svg+xml", "png": "image/png", "table": TABLE}
    listed = [{"mime": names.get(name, name), "text": text} for name, text in parts.items()]
    return Display.model_validate({"parts": listed})


@pytest.mark.parametrize("attack", ATTACKS)
def test_displays_run_nothing(attack: str) -> None:
    table = '{"columns": [{"name": %s}], "index": [%s], "rows": [[%s]], "total_rows": 1, "total_columns": 1}'
    quoted = '"' + attack.replace('"', '\\"') + '"'
    for one in (
        display(text=attack),
        display(text=attack, html=attack),
        display(text="x", svg=f"<svg xmlns='http://www.w3.org/2000/svg'>{attack}</svg>"),
        display(text="x", png=attack),
        display(text="x", table=table % (quoted, quoted, quoted)),
        display(text="x", table=attack, html=attack),
        Display.model_validate({"parts": [{"mime": "application/javascript", "text": "alert(1)"}]}),
    ):
        bundle = one._repr_mimebundle_()
        assert set(bundle) == {"text/plain", "text/html"}
        harmless(bundle["text/html"])


def test_the_test_of_harmlessness_can_fail() -> None:
    for page in (SCRIPT, "<img src='data:image/png;base64,' onerror=x>", "<iframe sandbox='allow-scripts' srcdoc=''>"):
        with pytest.raises(AssertionError):
            harmless(page)


def test_outcomes_run_nothing(session: Session) -> None:
    code = f"""
class Shown:
    def __repr__(self): return {SCRIPT!r}
    def _repr_html_(self): return {SCRIPT!r}
    def _repr_javascript_(self): return "alert(1)"
print({SCRIPT!r})
display(Shown())
raise ValueError({SCRIPT!r})
"""
    outcome = session.run(code)
    bundle = outcome._repr_mimebundle_()
    harmless(bundle["text/html"])
    assert bundle["text/html"].count("iframe") == 2 and bundle["text/html"].count("<pre>") == 2
    assert "ValueError" in bundle["text/plain"]


def test_tables_and_figures(session: Session) -> None:
    outcome = session.run("import pandas as pd\npd.DataFrame({'a<b': [1.5, None], 'c': ['x', '<i>']})")
    page = outcome._repr_html_()
    harmless(page)
    for part in ("<th>a&lt;b</th>", "<td>1.5</td>", "<td>&lt;i&gt;</td>", "2 rows × 2 columns"):
        assert part in page
    figure = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert isinstance(figure, Outcome) and figure.display is not None
    assert (figure.display.png or b"").startswith(b"\x89PNG")
    assert 'src="data:image/png;base64,' in figure._repr_html_()
    harmless(figure._repr_html_())


def test_text_does_nothing_to_a_terminal(session: Session) -> None:
    sent = "\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b]52;c;aGk=\x1b\\ \x9b5n\x08\x7f\ttab\r\nline"
    assert safe(sent) == "red 5n\ttab\nline"
    outcome = session.run(f"print({sent!r})")
    assert "\x1b" in outcome.stdout, "what was written is there as it was written"
    assert "\x1b" not in str(outcome) + repr(outcome) + outcome._repr_html_()


def test_what_is_printed_is_short(session: Session) -> None:
    picture = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()").display
    assert picture is not None and len(picture.png or b"") > 1000
    for text in (str(picture), repr(picture), str(picture.parts), f"{picture.parts[0]}"):
        assert len(text) < 300, text
    assert "image/png" in repr(picture)
    outcome = session.run("print('begin'); print('x' * 100_000); print('end')")
    assert len(outcome.stdout) > 90_000, "all of it is there"
    assert len(str(outcome)) < 21_000 and "characters omitted" in str(outcome)
    assert str(outcome).startswith("begin") and str(outcome).endswith("end")
    failed = session.run("print('x' * 100_000); raise ValueError('y' * 50_000)")
    assert len(str(failed)) < 42_000 and "ValueError" in str(failed)


@pytest.mark.parametrize("table", ["[]", "{}", '{"columns": 1}', "9" * 9, "[" * 10_000, '{"total_rows": 1e999}'])
def test_a_table_that_is_none(table: str) -> None:
    assert display(table=table).table is None
