"""Rules that keep the pages true to the tree."""

import posixpath
import re
from typing import Iterator

from tree import Tree

PROTOCOL, WIRE_PAGE = "include/kvstrata/protocol.h", "doc/wire-protocol.md"
RESULT = "include/kvstrata/result.h"
COMMANDS = ["./tools/dev demo", "./tools/dev test"]

LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w/.-])doc/[\w-]+\.md\b")
FENCED = re.compile(r"^```.*?^```", re.M | re.S)
ENUM_ENTRY = re.compile(r"^  (\w+) = (\d+),(?:\s*///<\s*(.*))?$", re.M)
VERB_TABLE = re.compile(r"^## Verbs$(.*?)(?=^## |\Z)", re.M | re.S)
VERB_ROW = re.compile(r"^\| (\d+) \| (\w+) \|", re.M)
SECTION = re.compile(r"^## \[?(Unreleased|\d+\.\d+\.\d+)\b", re.M)


def links_lead_somewhere(tree: Tree) -> Iterator[str]:
    folders = {posixpath.dirname(path) for path in tree.files}
    for path in tree.paths(".md"):
        for target in LINK.findall(FENCED.sub("", tree.text(path))):
            target = target.split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            at = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if at not in tree.files and at not in folders:
                yield f"{path}: {target} is not there"


def pages_that_are_mentioned_exist(tree: Tree) -> Iterator[str]:
    for path in tree.paths():
        if path.startswith("tests/tidy/"):
            continue
        for page in sorted(set(PAGE.findall(tree.text(path)))):
            if page not in tree.files:
                yield f"{path}: {page} is not there"


def entries_of_enum(text: str, name: str) -> list[tuple[str, int, str]]:
    body = re.search(rf"enum class {name}\b[^{{]*{{(.*?)}};", text, re.S)
    entries = ENUM_ENTRY.findall(body.group(1)) if body else []
    return [(entry, int(number), comment) for entry, number, comment in entries]


def every_verb_is_in_the_protocol_page(tree: Tree) -> Iterator[str]:
    verbs = entries_of_enum(tree.text(PROTOCOL), "Verb")
    if not verbs:
        yield f"{PROTOCOL}: no enum of verbs was found"
    table = VERB_TABLE.search(tree.text(WIRE_PAGE))
    found = VERB_ROW.findall(table.group(1)) if table else []
    rows = {int(number): name.upper() for number, name in found}
    for name, number, comment in verbs:
        row = rows.pop(number, "")
        spelled = {name.upper(), (comment.split() or [""])[0]}
        if not row or (row not in spelled and not name.upper().startswith(row + "_")):
            yield f"{WIRE_PAGE}: verb {number} ({name}) is {row or 'missing'}"
    for number, name in rows.items():
        yield f"{WIRE_PAGE}: verb {number} ({name}) is not in {PROTOCOL}"


def every_error_kind_is_in_the_protocol_page(tree: Tree) -> Iterator[str]:
    kinds = entries_of_enum(tree.text(RESULT), "ErrorKind")
    if not kinds:
        yield f"{RESULT}: no enum of error kinds was found"
    for name, number, _ in kinds:
        if not re.search(rf"\b{number} {name}\b", tree.text(WIRE_PAGE)):
            yield f"{WIRE_PAGE}: error kind {number} {name} is missing"


def the_changelog_has_a_current_section(tree: Tree) -> Iterator[str]:
    if not SECTION.search(tree.text("CHANGELOG.md")):
        yield "CHANGELOG.md: neither an Unreleased nor a version section"


def the_readme_names_both_commands(tree: Tree) -> Iterator[str]:
    for command in COMMANDS:
        if command not in tree.text("README.md"):
            yield f"README.md: {command} is not named"


RULES = [
    links_lead_somewhere,
    pages_that_are_mentioned_exist,
    every_verb_is_in_the_protocol_page,
    every_error_kind_is_in_the_protocol_page,
    the_changelog_has_a_current_section,
    the_readme_names_both_commands,
]
