"""Rules about the text of source files. Each yields "where: what is wrong"."""

import posixpath
import re
from typing import Iterator

from tree import Tree

CODE = (".cpp", ".h", ".cu", ".cuh")
SOURCES = (*CODE, ".py", ".sh", "meson.build", "meson.options")
OWN_FOLDER = "tests/tidy/"
LINES_MAX, LINES_USUAL, COLUMNS_MAX = 600, 400, 100
LONG_FILES_SHARE_MAX = 0.1

LATER = re.compile(r"\b(TODO|FIXME|XXX|not implemented|unimplemented|stubs?)\b")
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|time\.sleep)\b")
HEAVY = re.compile(r'#include [<"](boost/asio|asio|CLI|nlohmann|spdlog|toml\+\+|toml|rocksdb|'
                   r'msgpack)[./]')
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
IMPL = "_impl.h"  # may hold a heavy header, for the files of its own folder


def matching(tree: Tree, paths: list[str], pattern: re.Pattern, what: str) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(tree.lines(path), 1):
            found = pattern.search(line)
            if found:
                yield f"{path}:{number}: {found.group(0)!r} {what}"


def files_are_at_most_600_lines_long(tree: Tree) -> Iterator[str]:
    for path in tree.paths(*SOURCES):
        count = len(tree.lines(path))
        if count > LINES_MAX:
            yield f"{path}: {count} lines; a file is one concept"


def nine_in_ten_files_are_at_most_400_lines_long(tree: Tree) -> Iterator[str]:
    paths = tree.paths(*SOURCES)
    long = [path for path in paths if len(tree.lines(path)) > LINES_USUAL]
    if len(long) > LONG_FILES_SHARE_MAX * len(paths):
        yield f"{len(long)} of {len(paths)} files are longer: {', '.join(long)}"


def lines_are_at_most_100_columns_wide(tree: Tree) -> Iterator[str]:
    for path in tree.paths(*SOURCES):
        for number, line in enumerate(tree.lines(path), 1):
            if len(line) > COLUMNS_MAX:
                yield f"{path}:{number}: {len(line)} columns"


def nothing_is_left_for_later(tree: Tree) -> Iterator[str]:
    paths = [path for path in tree.paths(*SOURCES) if not path.startswith(OWN_FOLDER)]
    return matching(tree, paths, LATER, "promises work instead of doing it")


def headers_are_included_once(tree: Tree) -> Iterator[str]:
    for path in tree.paths(".h", ".cuh"):
        if "#pragma once" not in tree.lines(path):
            yield f"{path}: no #pragma once"


def headers_open_with_a_comment(tree: Tree) -> Iterator[str]:
    for path in tree.paths(".h", ".cuh"):
        if not tree.text(path).startswith("//"):
            yield f"{path}: the first line says what the header's noun is"


def heavy_headers_stay_in_cpp_files(tree: Tree) -> Iterator[str]:
    paths = [path for path in tree.paths(".h", ".cuh") if not path.endswith(IMPL)]
    return matching(tree, paths, HEAVY, "costs everyone who includes this header seconds")


def heavy_headers_in(tree: Tree) -> set[str]:
    """Headers that bring a heavy one along, directly or through others."""
    headers = tree.paths(".h", ".cuh")
    heavy = {path for path in headers if HEAVY.search(tree.text(path))}
    size = -1
    while size != len(heavy):
        size = len(heavy)
        heavy |= {path for path in headers
                  if any(used in heavy for used in INCLUDE.findall(tree.text(path)))}
    return heavy


def headers_with_heavy_ones_stay_in_their_folder(tree: Tree) -> Iterator[str]:
    heavy = heavy_headers_in(tree)
    for path in tree.paths(*CODE):
        for used in INCLUDE.findall(tree.text(path)):
            if used in heavy and posixpath.dirname(used) != posixpath.dirname(path):
                yield f"{path}: {used} brings a heavy header along; its own folder only"


def tests_never_sleep(tree: Tree) -> Iterator[str]:
    paths = tree.paths(*SOURCES, under=("tests/", "python/tests/"))
    paths = [path for path in paths if not path.startswith(OWN_FOLDER)]
    return matching(tree, paths, SLEEP, "waits for time; wait for the event itself")


RULES = [
    files_are_at_most_600_lines_long,
    nine_in_ten_files_are_at_most_400_lines_long,
    lines_are_at_most_100_columns_wide,
    nothing_is_left_for_later,
    headers_are_included_once,
    headers_open_with_a_comment,
    heavy_headers_stay_in_cpp_files,
    headers_with_heavy_ones_stay_in_their_folder,
    tests_never_sleep,
]
