"""The C++ program in README.md compiles as it stands there.

usage: readme_example.py README INCLUDE_DIR COMPILER [FLAG ...]
"""

import pathlib
import re
import sys

from compile_alone import complaint_about


def main(readme: pathlib.Path, include_dir: pathlib.Path, compiler: list[str]) -> int:
    programs = re.findall(r"^```cpp$(.*?)^```$", readme.read_text(), re.M | re.S)
    print(f"1..{len(programs)}")
    failed = 0
    for number, program in enumerate(programs, 1):
        text = complaint_about(program, include_dir, compiler)
        print(f"{'not ok' if text else 'ok'} {number} - C++ example {number} of {readme.name}")
        for line in text.splitlines()[:20]:
            print(f"#   {line}")
        failed += bool(text)
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]))
