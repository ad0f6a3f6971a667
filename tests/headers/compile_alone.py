"""Every public header compiles alone, and twice, in TAP: one test point per header.

usage: compile_alone.py INCLUDE_DIR COMPILER [FLAG ...]
"""

import concurrent.futures
import pathlib
import subprocess
import sys

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wconversion",
         "-Wno-sign-conversion", "-Wno-missing-field-initializers", "-Werror"]


def complaint_about(program: str, include_dir: pathlib.Path, compiler: list[str]) -> str:
    """What the compiler says about a program; empty if it is content."""
    done = subprocess.run([*compiler, *FLAGS, f"-I{include_dir}", "-x", "c++", "-"], input=program,
                          capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    return done.stderr or f"the compiler ended with {done.returncode}"


def complaint(include_dir: pathlib.Path, header: str, compiler: list[str]) -> str:
    """About a program of nothing but the header, included twice."""
    return complaint_about(f'#include "{header}"\n' * 2, include_dir, compiler)


def main(include_dir: pathlib.Path, compiler: list[str]) -> int:
    headers = sorted(str(path.relative_to(include_dir))
                     for path in (include_dir / "kvstrata").glob("**/*.h"))
    print(f"1..{len(headers)}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        complaints = pool.map(lambda header: complaint(include_dir, header, compiler), headers)
        for number, (header, text) in enumerate(zip(headers, complaints), 1):
            print(f"{'not ok' if text else 'ok'} {number} - {header} compiles alone")
            for line in text.splitlines()[:20]:
                print(f"#   {line}")
            failed += bool(text)
    return 1 if failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
