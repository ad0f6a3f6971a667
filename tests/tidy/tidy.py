"""Style as a test: one test point per rule, in TAP. usage: tidy.py [ROOT]"""

import pathlib
import sys

import doc_rules
import layout_rules
import source_rules
from tree import Tree

RULES = source_rules.RULES + layout_rules.RULES + doc_rules.RULES
FINDINGS_SHOWN_MAX = 20


def main(root: pathlib.Path) -> int:
    tree = Tree.of_checkout(root)
    print(f"1..{len(RULES)}")
    failed = 0
    for number, rule in enumerate(RULES, 1):
        findings = list(rule(tree))
        verdict = "not ok" if findings else "ok"
        print(f"{verdict} {number} - {rule.__name__.replace('_', ' ')}")
        for finding in findings[:FINDINGS_SHOWN_MAX]:
            print(f"#   {finding}")
        if len(findings) > FINDINGS_SHOWN_MAX:
            print(f"#   and {len(findings) - FINDINGS_SHOWN_MAX} more")
        failed += bool(findings)
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]
    sys.exit(main(pathlib.Path(given)))
