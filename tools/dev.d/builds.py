"""Build directories under build/: what each is for, configuring and compiling them."""

import dataclasses
import os
import platform
import shutil
import subprocess

import environment
import packages
from paths import BUILD, PARTS, ROOT, VENV
from steps import StepFailed, run

GCC, CLANG = "g++", "clang++-19"
# -O1 with line tables: stack traces name lines, and compiling stays cheap.
SANITIZED = ["-Doptimization=1", "-Ddebug=false", "-Dcpp_args=-g1", "-Db_lundef=false",
             "-Dbench=false"]
ADDRESS, THREAD = "address,undefined", "thread"


@dataclasses.dataclass(frozen=True)
class Build:
    """One build directory. `sanitizer` is what its programs are instrumented with."""

    name: str
    compiler: str
    options: tuple[str, ...] = ()
    sanitizer: str = ""
    what: str = ""

    @property
    def directory(self):
        return BUILD / self.name

    @property
    def packages(self) -> list[str]:
        return packages.BASE + (packages.CLANG if self.compiler == CLANG else [])


def sanitized(name: str, compiler: str, sanitizer: str) -> Build:
    # g++ warns falsely in instrumented code; what it finds in plain code fails the release build.
    werror = "true" if compiler == CLANG else "false"
    options = (*SANITIZED, f"-Db_sanitize={sanitizer}", f"-Dwerror={werror}")
    return Build(name, compiler, options, sanitizer, f"{compiler} with {sanitizer} sanitizers")


ALL = {build.name: build for build in [
    Build("release", GCC, what="g++, optimised: what is installed and measured"),
    Build("debug", GCC, ("-Dbuildtype=debug", "-Dbench=false"), what="g++ for gdb"),
    Build("mutants", GCC, ("-Dmutants=true", "-Dbench=false"),
          what="g++, optimised, with planted mistakes, for `tools/dev fault`"),
    sanitized("asan-gcc", GCC, ADDRESS),
    sanitized("tsan-gcc", GCC, THREAD),
    sanitized("asan-clang", CLANG, ADDRESS),
    sanitized("tsan-clang", CLANG, THREAD),
    Build("clang", CLANG, (*SANITIZED, "-Dfuzzer=true", f"-Db_sanitize={ADDRESS}"), ADDRESS,
          "clang with libFuzzer, for `tools/dev fuzz`"),
]}
# Both compilers and both sanitizers; compiling four takes two cores most of an hour.
SANITIZER_BUILDS = ["asan-gcc", "tsan-clang"]
OTHER_SANITIZER_BUILDS = ["asan-clang", "tsan-gcc"]  # `tools/dev test --all`


def named(name: str) -> Build:
    if name not in ALL:
        raise StepFailed(f"there is no build '{name}'; there are: {', '.join(ALL)}")
    return ALL[name]


def jobs() -> int:
    """One per core, but no more than memory has room for at 1.5 GiB a compiler."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return max(1, min(os.cpu_count() or 1, pages * page_bytes // (3 << 29)))


def compile_environment(build: Build) -> dict[str, str]:
    return {"CXX": f"ccache {build.compiler}" if shutil.which("ccache") else build.compiler,
            "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}",
            "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}


def sanitizer_environment(build: Build) -> dict[str, str]:
    if not build.sanitizer:
        return {}
    # g++'s sanitizers name lines by themselves; clang's look for a tool whose name they don't find.
    symbolizer = shutil.which("addr2line") if build.compiler == CLANG else None
    names = f":external_symbolizer_path={symbolizer}" if symbolizer else ""
    return {
        "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:check_initialization_order=1:"
                        f"detect_stack_use_after_return=1{names}",
        "LSAN_OPTIONS": f"suppressions={PARTS / 'lsan.supp'}:print_suppressions=0",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1{names}",
        "TSAN_OPTIONS": f"suppressions={PARTS / 'tsan.supp'}:halt_on_error=1:"
                        f"second_deadlock_stack=1:history_size=4{names}",
    }


def run_prefix(build: Build) -> list[str]:
    """ThreadSanitizer can't place its shadow where a kernel randomises addresses too widely."""
    fixed = ["setarch", platform.machine(), "-R"]
    if build.sanitizer != THREAD or not shutil.which("setarch"):
        return []
    return fixed if subprocess.run([*fixed, "true"], capture_output=True).returncode == 0 else []


def prepare(*builds: Build) -> None:
    """Everything compiling `builds` needs from the machine."""
    packages.install(list(dict.fromkeys(name for build in builds for name in build.packages)))
    environment.ensure_base()


def configure(build: Build) -> None:
    """Configures the directory once; again whenever what it depends on outside of it changed."""
    # Some benchmarks are built only where the peer they measure against is installed.
    peers = "" if "-Dbench=false" in build.options else " ".join(packages.missing(packages.BENCH))
    wanted = "\n".join([build.compiler, *build.options, f"without: {peers}"])
    stamp = build.directory / "configured-by-dev"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    fresh = ["--wipe"] if (build.directory / "meson-private").exists() else []
    run(f"configure {build.name}",
        [VENV / "bin" / "meson", "setup", *fresh, build.directory, ROOT, *build.options],
        env=compile_environment(build))
    stamp.write_text(wanted)


def compile(build: Build, targets: list[str] | None = None, keep_going: bool = False) -> None:
    configure(build)
    command = ["ninja", "-C", build.directory, f"-j{jobs()}", *(["-k0"] if keep_going else [])]
    run(f"build {build.name}", [*command, *(targets or [])], env=compile_environment(build))
