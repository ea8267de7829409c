"""Writes what is made from something else: the types of answers (`models.py`) from docs/openapi.json, and
the client that waits (`_sync.py`) from the one that is awaited (`_async.py`).

    python generate.py            writes both
    python generate.py --check    says what is not up to date, and fails

Both are kept in the repository: nothing is generated when the package is built or used. General generators
know far more of OpenAPI than this document uses, and make classes that a user would not want to read.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "belljar"
OPENAPI = HERE.parent.parent / "docs" / "openapi.json"
NOTE = "# Made by generate.py: change what it is made from, and run that again.\n"

Schema = dict[str, Any]

# What has more than its fields, in _shown.py; and what is under another name there, since a user of
# `outcome.stdout` wants the text.
METHODS = {"Display": "DisplayMethods", "Outcome": "OutcomeMethods", "ShownSubject": "ShownMethods"}
RENAMED = {("Outcome", "stdout"): "stdout_output", ("Outcome", "stderr"): "stderr_output"}

MODELS_HEAD = '''
"""What the service answers, as docs/openapi.json has it.

A newer service may say more than this version knows: fields that are not known are kept, and a word that is
not known is a word like others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from ._shown import DisplayMethods, OutcomeMethods, ShownMethods


class Model(BaseModel):
    """What an answer is made of."""

    model_config = ConfigDict(extra="allow", frozen=True)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is no string")
    return value


_Word = PlainValidator(_word)

'''


class Models:
    """The types that answers are made of."""

    def __init__(self, document: Schema) -> None:
        self.schemas: dict[str, Schema] = document["components"]["schemas"]
        self.wanted: dict[str, None] = {}
        for path in document["paths"].values():
            for operation in path.values():
                for answer in operation["responses"].values():
                    self.visit(answer)

    def visit(self, part: Any) -> None:
        """Takes everything that a part of the document refers to."""
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                name = part["$ref"].rsplit("/", 1)[1]
                if name not in self.wanted:
                    self.wanted[name] = None
                    self.visit(self.schemas[name])
            for value in part.values():
                self.visit(value)
        elif isinstance(part, list):
            for value in part:
                self.visit(value)

    def text(self) -> str:
        """All of them, those that others are made of first."""
        done: dict[str, str] = {}

        def write(name: str) -> None:
            if name in done:
                return
            schema = self.schemas[name]
            for used in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)):
                write(used)
            done[name] = self.define(name, schema)

        for name in sorted(self.wanted):
            write(name)
        return "\n\n".join(done.values())

    def define(self, name: str, schema: Schema) -> str:
        if "allOf" in schema:
            # Another one, and more.
            base, own = schema["allOf"]
            described = {**own, "description": schema.get("description")}
            return self.model(name, described, base["$ref"].rsplit("/", 1)[1])
        variants = schema.get("oneOf")
        if variants is None:
            if "enum" in schema:
                return words(name, schema["enum"], schema.get("description"))
            return self.model(name, schema)
        if all("const" in variant for variant in variants):
            return words(name, [variant["const"] for variant in variants], schema.get("description"))
        if any("$ref" in variant for variant in variants):
            return self.union(name, variants)
        return self.flat(name, schema)

    def model(self, name: str, schema: Schema, base: str = "Model") -> str:
        methods = f"{METHODS[name]}, " if name in METHODS else ""
        lines = [f"class {name}({methods}{base}):", *doc(schema.get("description"))]
        required = schema.get("required", [])
        for field, value in schema.get("properties", {}).items():
            own = RENAMED.get((name, field))
            if own is not None:
                lines += ["", f'    {own}: {self.kind(value)} = Field(alias="{field}")', *doc(plain(value))]
            else:
                lines += ["", *self.field(field, value, field in required)]
        return "\n".join(lines) + "\n"

    def flat(self, name: str, schema: Schema) -> str:
        """One class for alternatives that a word tells apart: the fields of all, `None` where they are not
        told. `cause.limit_ms` is easier to ask for than one class for each cause."""
        variants = schema["oneOf"]
        tag = next(field for field, value in variants[0]["properties"].items() if "const" in value)
        fields: dict[str, tuple[Schema, list[str]]] = {}
        for variant in variants:
            for field, value in variant["properties"].items():
                if field != tag:
                    fields.setdefault(field, (value, []))[1].append(variant["properties"][tag]["const"])
        consts = [variant["properties"][tag]["const"] for variant in variants]
        meanings = [f"- `{variant['properties'][tag]['const']}`: {plain(variant)}" for variant in variants]
        lines = [f"class {name}(Model):", *doc("\n".join([plain(schema), "", *meanings]))]
        lines += ["", f"    {tag}: {literal(consts)}"]
        for field, (value, where) in fields.items():
            told = {**value, "description": f"{plain(value)} Told with {', '.join(f'`{one}`' for one in where)}."}
            lines += ["", *self.field(field, told, False)]
        return "\n".join(lines) + "\n"

    def union(self, name: str, variants: list[Schema]) -> str:
        """A class for each alternative, where those are types of their own; and all of them by their word."""
        classes, entries = [], []
        for variant in variants:
            word = variant["properties"]["type"]["const"]
            own = "".join(part.capitalize() for part in word.split("_")) + name
            base = variant["$ref"].rsplit("/", 1)[1] if "$ref" in variant else "Model"
            text = self.model(own, variant, base)
            classes.append(text.replace(f"type: {literal([word])}", f'type: Literal["{word}"]'))
            entries.append(f'    "{word}": {own},\n')
        table = f"{name.upper()}S: dict[str, type[Model]] = {{\n{''.join(entries)}}}\n"
        return "\n\n".join([*classes, table])

    def field(self, name: str, schema: Schema, required: bool) -> list[str]:
        kind, default, value = self.kind(schema), schema.get("default"), ""
        if not required and isinstance(default, (list, dict)):
            value = f" = Field(default_factory={'list' if isinstance(default, list) else kind})"
        elif not required:
            kind = kind if "None" in kind else f"{kind} | None"
            value = " = None"
        return [f"    {name}: {kind}{value}", *doc(schema.get("description"))]

    def kind(self, schema: Schema) -> str:
        if "$ref" in schema:
            return str(schema["$ref"].rsplit("/", 1)[1])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return " | ".join(self.kind(one) for one in schema[several])
        if "const" in schema:
            return literal([schema["const"]])
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return " | ".join(self.simple(one, schema) for one in types)

    def simple(self, name: str, schema: Schema) -> str:
        if name == "array":
            return f"list[{self.kind(schema['items'])}]"
        known = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        return known[name] if name in known else "dict[str, Any]"


def literal(values: list[str]) -> str:
    words = ", ".join(json.dumps(value) for value in values)
    return f"Annotated[Literal[{words}], _Word]"


def words(name: str, values: list[str], description: str | None) -> str:
    return "\n".join([f"{name} = {literal(values)}", *(line[4:] for line in doc(description))]) + "\n"


def plain(schema: Schema) -> str:
    """Its description, without links of the source that it comes from."""
    text = str(schema.get("description", ""))
    return re.sub(r"\[(`[^`]*`)\]", r"\1", text).replace("::", ".")


def doc(description: str | None) -> list[str]:
    if not description:
        return []
    text = plain({"description": description}).replace("\\", "\\\\")
    lines = text.split("\n")
    if len(lines) == 1:
        return [f'    """{text}"""']
    return [f'    """{lines[0]}', *(f"    {line}".rstrip() for line in lines[1:]), '    """']


SYNC = [
    (r"async def", "def"),
    (r"async (with|for)", r"\1"),
    (r"await ", ""),
    (r"\bAsync(Belljar|Session|Files|Events|Run|RunReading|Client|Iterator|Reading)\b", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\ba(close|read|iter_raw|iter_bytes)\(", r"\1("),
    (r"\bachunks\b", "chunks"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"import asyncio", "import time"),
    (r"asyncio\.CancelledError", "KeyboardInterrupt"),
]


def sync(text: str) -> str:
    """The client that waits. Lines that end in `# async` are for the other one alone."""
    lines = [line for line in text.splitlines(keepends=True) if not line.endswith("# async\n")]
    text = "".join(lines)
    for pattern, replacement in SYNC:
        text = re.sub(pattern, replacement, text)
    return text


def made() -> dict[Path, str]:
    document = json.loads(OPENAPI.read_text())
    return {
        PACKAGE / "models.py": NOTE + MODELS_HEAD.lstrip("\n") + "\n" + Models(document).text(),
        PACKAGE / "_sync.py": NOTE + sync((PACKAGE / "_async.py").read_text()),
    }


def main() -> int:
    check = "--check" in sys.argv[1:]
    old = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    for path in old:
        if check:
            print(f"{path.relative_to(HERE)} is not up to date: run generate.py", file=sys.stderr)
        else:
            path.write_text(made()[path])
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main())
