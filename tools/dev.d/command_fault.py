"""tools/dev fault: fails, cuts and loses everything the storage depends on, and tells what became
of it.

1. Faults: one scenario (put, get, reclaim, restart), run once for each operation of its disks and
   each way in which that can fail, once or from then on.
2. Memory: the same for each system call by which an engine takes memory or registers it.
3. Simulation: runs decided by seeds, with faults, power cuts and restarts.
4. Mutants: mistakes planted in the storage, of which each must be noticed.

doc/simulation.md tells what is covered. FILE gets one flat object: cases, wrong_bytes, lost, stuck,
hangs, crashes, leaks, sim_seeds, sim_failed, sim_first, sim_power_cuts, mutants, mutants_killed.
"""

import json
import pathlib
import random

import arguments
import builds
from paths import LOGS
from steps import StepFailed, run as run_step

HELP = "fail every operation of disks and memory, simulate power cuts, plant mistakes"
MUST_BE_ZERO = ["wrong_bytes", "lost", "stuck", "hangs", "crashes", "leaks", "sim_failed"]


def add_arguments(parser) -> None:
    parser.add_argument("--sim-seeds", type=int, default=2_000, metavar="N",
                        help="runs of the simulation (default 2000)")
    parser.add_argument("--first", type=int, metavar="SEED",
                        help="the first run's seed (default: drawn)")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="only every N-th case of a fault (default 1)")
    arguments.add_json(parser)


def program(build: builds.Build, name: str) -> pathlib.Path:
    return build.directory / "tests" / "simulation" / name


def figures(build: builds.Build, name: str, *options: object) -> dict[str, int]:
    """What the program writes as JSON. It may fail: then its figures say so, or it left none."""
    file = LOGS / f"{name}.json"
    LOGS.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    run_step(name, [program(build, name), *options, "--json", file], may_fail=True)
    if not file.exists():
        raise StepFailed(f"{name} ended without figures; see build/logs/{name}.log")
    return json.loads(file.read_text())


def sum_up(*parts: dict[str, int]) -> dict[str, int]:
    """One flat object; what several parts count (hangs, crashes) is added."""
    total: dict[str, int] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total


def run(options) -> int:
    plain, mutants = builds.named("release"), builds.named("mutants")
    builds.prepare(plain, mutants)
    for build, names in [(plain, ["storage_faults", "memory_faults", "storage_simulation"]),
                         (mutants, ["storage_mutants"])]:
        builds.compile(build, [f"tests/simulation/{name}" for name in names])
    first = options.first if options.first is not None else random.SystemRandom().getrandbits(32)
    print(f"tools/dev fault --first {first} --sim-seeds {options.sim_seeds}", flush=True)
    total = sum_up(
        figures(plain, "storage_faults", "--every", options.every),
        figures(plain, "memory_faults", "--every", options.every),
        figures(plain, "storage_simulation", "--first", first, "--seeds", options.sim_seeds),
        figures(mutants, "storage_mutants"))
    if options.json:
        options.json.write_text(json.dumps(total, indent=1) + "\n")
    print(", ".join(f"{key} {value}" for key, value in total.items()), flush=True)
    complete = total["sim_seeds"] == options.sim_seeds and total["cases"] > 0
    clean = all(total[key] == 0 for key in MUST_BE_ZERO)
    return 0 if clean and complete and total["mutants_killed"] == total["mutants"] else 1
