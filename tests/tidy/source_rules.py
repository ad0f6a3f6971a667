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
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|time\.sleep|asyncio\.sleep)\b")
HEAVY = re.compile(r'#include [<"](boost/asio|asio|CLI|nlohmann|spdlog|toml\+\+|toml|rocksdb|'
                   r'msgpack)[./]')
IMPL = "_impl.h"


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


def impl_headers_are_for_cpp_files_beside_them(tree: Tree) -> Iterator[str]:
    """x_impl.h may hold a heavy header for the .cpp files of its own folder, and for no others."""
    for path in tree.paths(*CODE):
        for number, line in enumerate(tree.lines(path), 1):
            found = re.match(rf'#include "(.*)/[^/"]*{re.escape(IMPL)}"', line)
            if found and (path.endswith((".h", ".cuh")) or posixpath.dirname(path) != found[1]):
                yield f"{path}:{number}: {line.split()[1]} is for the .cpp files of {found[1]}/"


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
    impl_headers_are_for_cpp_files_beside_them,
    tests_never_sleep,
]
