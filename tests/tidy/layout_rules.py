"""Rules about folders: what lies where, and who may include whom."""

import posixpath
import re
from typing import Iterator

from tree import CORPUS, Tree

CODE = (".cpp", ".h", ".cu", ".cuh")
TOP_LEVEL = {
    ".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore", "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", "README.md", "bench", "codec", "daemon", "doc", "hostmem",
    "include", "meson.build", "meson.options", "predictor", "python", "storage", "tests", "tools",
}
# A folder may include itself and folders of a lower level; folders of one level don't know
# each other. `kvstrata/` is how include/kvstrata/ is spelled.
LEVELS = {"kvstrata": 0, "include": 0, "hostmem": 1, "codec": 1, "predictor": 2, "storage": 3,
          "daemon": 4, "tools": 5}
MAY_USE_ALL = ("tests", "bench")

FILE_BYTES_MAX = 100_000
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# ada is the user of all examples; nobody else's home may be named.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work/|root/|home/(?!ada\b))")


def folder_of(path: str) -> str:
    return path.split("/", 1)[0]


def may_include(user: str, used: str) -> bool:
    if user in MAY_USE_ALL:
        return used in LEVELS or used in MAY_USE_ALL
    if user not in LEVELS or used not in LEVELS:
        return False
    return user == used or LEVELS[used] < LEVELS[user] or {user, used} == {"include", "kvstrata"}


def includes_of(tree: Tree, path: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(tree.lines(path), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1)


def dependencies_point_one_way(tree: Tree) -> Iterator[str]:
    for path in tree.paths(*CODE):
        for number, included in includes_of(tree, path):
            user, used = folder_of(path), folder_of(included)
            if used in LEVELS or used in MAY_USE_ALL:
                if not may_include(user, used):
                    yield f"{path}:{number}: {user}/ may not use {used}/"


def includes_are_written_from_the_root(tree: Tree) -> Iterator[str]:
    """Tests and benchmarks may also include what lies beside them."""
    for path in tree.paths(*CODE):
        for number, included in includes_of(tree, path):
            at = f"include/{included}" if included.startswith("kvstrata/") else included
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), included))
            allowed = {at, beside} if folder_of(path) in MAY_USE_ALL else {at}
            if not allowed & tree.files.keys():
                yield f'{path}:{number}: "{included}" is no file seen from the root'


def public_headers_use_public_headers_only(tree: Tree) -> Iterator[str]:
    for path in tree.paths(".h", under=("include/kvstrata/",)):
        for number, included in includes_of(tree, path):
            if not included.startswith("kvstrata/"):
                yield f'{path}:{number}: "{included}" is not installed'


def every_cpp_file_is_built(tree: Tree) -> Iterator[str]:
    """A test that no meson.build names would never run, and nobody would notice."""
    builds = {posixpath.dirname(path): tree.text(path) for path in tree.paths("meson.build")}
    for path in tree.paths(".cpp", ".cu"):
        folder, stem = posixpath.dirname(path), posixpath.splitext(path)[0]
        named = False
        while folder and not named:
            relative = posixpath.relpath(path, folder)
            names = {f"'{relative}'", f"'{posixpath.relpath(stem, folder)}'"}
            named = any(name in builds.get(folder, "") for name in names)
            folder = posixpath.dirname(folder)
        if not named:
            yield f"{path}: no meson.build names it"


def the_top_level_holds_known_names_only(tree: Tree) -> Iterator[str]:
    for name in sorted({folder_of(path) for path in tree.files} - TOP_LEVEL):
        yield f"{name}: not a known top-level name"


def no_file_is_binary_or_large(tree: Tree) -> Iterator[str]:
    for path in tree.paths():
        if tree.is_binary(path):
            yield f"{path}: binary; tests make their data"
        if len(tree.files[path]) > FILE_BYTES_MAX:
            yield f"{path}: {len(tree.files[path])} bytes"


def corpora_of_fuzz_targets_are_small(tree: Tree) -> Iterator[str]:
    size = sum(len(content) for path, content in tree.files.items() if path.startswith(CORPUS))
    if size > FILE_BYTES_MAX:
        yield f"{CORPUS}: {size} bytes"


def no_path_of_one_machine_is_written_down(tree: Tree) -> Iterator[str]:
    for path in tree.paths():
        for number, line in enumerate(tree.lines(path), 1):
            found = MACHINE_PATH.search(line)
            if found:
                yield f"{path}:{number}: {found.group(0)} exists on one machine only"


RULES = [
    dependencies_point_one_way,
    includes_are_written_from_the_root,
    public_headers_use_public_headers_only,
    every_cpp_file_is_built,
    the_top_level_holds_known_names_only,
    no_file_is_binary_or_large,
    corpora_of_fuzz_targets_are_small,
    no_path_of_one_machine_is_written_down,
]
