"""Every rule is shown a tree that breaks it and one that just keeps it."""

import unittest

import doc_rules
import layout_rules
import source_rules
from tidy import RULES
from tree import Tree

# Written in pieces where the rules would find it in this file itself.
HOME = "/ho" + "me/someone/file"
HEADER = "// A Thing is one.\n#pragma once\n"
VERBS = "enum class Verb : std::uint8_t {\n  hello = 1,\n  remove = 2,  ///< DELETE\n};\n"
VERB_PAGE = "## Verbs\n\n| 1 | HELLO | |\n| 2 | DELETE | |\n"
ERRORS = "enum class ErrorKind : std::uint16_t {\n  busy = 5,  ///< full\n};\n"


def one(path: str, text: str) -> dict[str, str]:
    return {path: text}


# rule: (a tree that breaks it, a tree that keeps it)
CASES = {
    source_rules.files_are_at_most_600_lines_long: (
        one("codec/a.cpp", "\n" * 601), one("codec/a.cpp", "\n" * 600)),
    source_rules.nine_in_ten_files_are_at_most_400_lines_long: (
        {f"codec/{i}.cpp": "\n" * (401 if i < 2 else 1) for i in range(10)},
        {f"codec/{i}.cpp": "\n" * (401 if i < 1 else 1) for i in range(10)}),
    source_rules.lines_are_at_most_100_columns_wide: (
        one("codec/a.cpp", "x" * 101), one("codec/a.cpp", "ü" * 100)),
    source_rules.nothing_is_left_for_later: (
        one("codec/a.cpp", "// TODO: all of it"), one("codec/a.cpp", 'mkdtemp("/tmp/a-XXXXXX")')),
    source_rules.headers_are_included_once: (
        one("codec/a.h", "// A Thing.\n"), one("codec/a.h", HEADER)),
    source_rules.headers_open_with_a_comment: (
        one("codec/a.h", "#pragma once\n"), one("codec/a.h", HEADER)),
    source_rules.heavy_headers_stay_in_cpp_files: (
        one("storage/a.h", "#include <rocksdb/db.h>"),
        {"storage/a.cpp": "#include <rocksdb/db.h>", "storage/a_impl.h": "#include <CLI/CLI.hpp>"}),
    source_rules.headers_with_heavy_ones_stay_in_their_folder: (
        {"daemon/x/a_impl.h": "#include <boost/asio.hpp>", "tests/b.cpp": '#include "daemon/x/b.h"',
         "daemon/x/b.h": '#include "daemon/x/a_impl.h"'},
        {"daemon/x/a_impl.h": "#include <boost/asio.hpp>",
         "daemon/x/b.h": '#include "daemon/x/a_impl.h"',
         "daemon/x/b.cpp": '#include "daemon/x/b.h"'}),
    source_rules.tests_never_sleep: (
        one("tests/a/a_test.cpp", "std::this_thread::sleep_for(1s);"),
        one("storage/a.cpp", "std::this_thread::sleep_for(1s);")),
    layout_rules.dependencies_point_one_way: (
        one("codec/a.cpp", '#include "storage/store.h"'),
        {"storage/a.cpp": '#include "codec/a.h"', "codec/b.cpp": '#include "kvstrata/id.h"',
         "tests/a.cpp": '#include "daemon/d.h"'}),
    layout_rules.includes_are_written_from_the_root: (
        {"codec/a.cpp": '#include "a.h"', "codec/a.h": ""},
        {"codec/a.cpp": '#include "codec/a.h"', "codec/a.h": '#include "kvstrata/id.h"',
         "include/kvstrata/id.h": "", "tests/a/kit.h": "", "tests/a/a.cpp": '#include "kit.h"'}),
    layout_rules.public_headers_use_public_headers_only: (
        one("include/kvstrata/a.h", '#include "codec/a.h"'),
        one("include/kvstrata/a.h", '#include "kvstrata/id.h"\n#include <span>')),
    layout_rules.every_cpp_file_is_built: (
        {"codec/x/a.cpp": "", "codec/meson.build": "'x/b.cpp'"},
        {"codec/x/a.cpp": "", "codec/meson.build": "'x/a.cpp'", "tests/t.cpp": "",
         "tests/meson.build": "foreach name : ['t']"}),
    layout_rules.the_top_level_holds_known_names_only: (
        one("misc/a.cpp", ""), one("codec/a.cpp", "")),
    layout_rules.no_file_is_binary_or_large: (
        one("tests/data/a.txt", "x" * 100_001), one("tests/data/a.txt", "x" * 100_000)),
    layout_rules.corpora_of_fuzz_targets_are_small: (
        {"tests/fuzz/corpus/a/1": "x" * 60_000, "tests/fuzz/corpus/b/1": "x" * 60_000},
        {"tests/fuzz/corpus/a/1": "x" * 60_000, "tests/fuzz/corpus/b/1": "\0"}),
    layout_rules.no_path_of_one_machine_is_written_down: (
        one("doc/a.md", f"see {HOME}"),
        one("doc/a.md", "see build/home/x, https://x.org/home/, /ho" "me/ada/x")),
    doc_rules.links_lead_somewhere: (
        one("doc/a.md", "[b](b.md)"),
        {"doc/a.md": "[b](b.md#x) [c](../codec/) [d](https://x.org)", "doc/b.md": "",
         "codec/a.h": ""}),
    doc_rules.pages_that_are_mentioned_exist: (
        one("codec/a.h", "// see doc/a.md"), {"codec/a.h": "// see doc/a.md", "doc/a.md": ""}),
    doc_rules.every_verb_is_in_the_protocol_page: (
        {doc_rules.PROTOCOL: VERBS, doc_rules.WIRE_PAGE: VERB_PAGE.replace("DELETE", "DROP")},
        {doc_rules.PROTOCOL: VERBS, doc_rules.WIRE_PAGE: VERB_PAGE}),
    doc_rules.every_error_kind_is_in_the_protocol_page: (
        {doc_rules.RESULT: ERRORS, doc_rules.WIRE_PAGE: "5 buzy"},
        {doc_rules.RESULT: ERRORS, doc_rules.WIRE_PAGE: "4 conflict, 5 busy."}),
    doc_rules.the_changelog_has_a_current_section: (
        one("CHANGELOG.md", "# Changelog\n"), one("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n")),
    doc_rules.the_readme_names_both_commands: (
        one("README.md", "run it"), one("README.md", "./tools/dev demo, ./tools/dev test")),
}


def tree_of(files: dict[str, str]) -> Tree:
    return Tree({path: text.encode() for path, text in files.items()})


class Rules(unittest.TestCase):
    def test_every_rule_has_a_case(self):
        self.assertEqual({rule.__name__ for rule in RULES}, {rule.__name__ for rule in CASES})

    def test_a_tree_that_breaks_a_rule_is_reported(self):
        for rule, (broken, _) in CASES.items():
            with self.subTest(rule.__name__):
                self.assertTrue(list(rule(tree_of(broken))))

    def test_a_tree_that_keeps_a_rule_is_not_reported(self):
        for rule, (_, kept) in CASES.items():
            with self.subTest(rule.__name__):
                self.assertEqual(list(rule(tree_of(kept))), [])

    def test_bytes_that_are_no_text_are_binary(self):
        for content in (b"\xff\xfe", b"a\0b"):
            self.assertTrue(list(layout_rules.no_file_is_binary_or_large(Tree({"a": content}))))


if __name__ == "__main__":
    unittest.main()
