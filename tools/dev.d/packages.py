"""Debian packages: which are needed for what, and installing those that are missing."""

import contextlib
import os
import pathlib
import shutil
import subprocess

from steps import StepFailed, run, say

# libmsgpack-dev is left out on purpose: it can't be installed beside Boost 1.81.
BASE = """
    g++ pkg-config cmake ninja-build ccache git python3-venv
    librocksdb-dev liburing-dev libboost1.81-dev libboost-context1.81-dev libxxhash-dev
    libbenchmark-dev doctest-dev libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
    libssl-dev libsodium-dev libtomlplusplus-dev libeigen3-dev libblis-serial-dev
""".split()
CLANG = "clang-19 libclang-rt-19-dev".split()
CHECK = CLANG + "clang-format-19 clang-tidy-19".split()
BENCH = "redis-server libhiredis-dev fio libhtscodecs-dev libzstd-dev".split()

POLICY = pathlib.Path("/usr/sbin/policy-rc.d")


def missing(packages: list[str]) -> list[str]:
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages]
    try:
        done = subprocess.run(query, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise StepFailed("setup needs a Debian system: dpkg-query is not here") from error
    installed = {line.split()[0] for line in done.stdout.splitlines()
                 if line.endswith(" installed")}
    return [name for name in packages if name not in installed]


def as_root() -> list[str]:
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        return ["sudo"]
    raise StepFailed("installing packages needs root, and there is no sudo: run as root "
                     "`apt-get install` for the packages named above")


@contextlib.contextmanager
def no_services_started(root: list[str]):
    """Keeps package scripts from starting daemons (redis-server would) while this is entered."""
    if POLICY.exists():
        yield
        return
    subprocess.run([*root, "sh", "-c", f"printf '#!/bin/sh\\nexit 101\\n' > {POLICY} && "
                    f"chmod 755 {POLICY}"], check=True)
    try:
        yield
    finally:
        subprocess.run([*root, "rm", "-f", str(POLICY)], check=True)


def install(packages: list[str]) -> None:
    """Installs what is missing of `packages`; does nothing, quickly, when all are there."""
    wanted = missing(packages)
    if not wanted:
        say(f"packages: all {len(packages)} present")
        return
    say(f"packages: installing {' '.join(wanted)}")
    root = as_root()
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "Acquire::Retries=3",
           "-o", "DPkg::Lock::Timeout=300", "-y"]
    if run("apt-get update", [*apt, "update"], may_fail=True) != 0:
        say("packages: apt-get update failed; trying with the lists that are here")
    with no_services_started(root):
        code = run("apt-get install", [*apt, "install", "--no-install-recommends", *wanted],
                   may_fail=True)
    if code != 0 or missing(wanted):
        raise StepFailed("apt-get could not install: " + " ".join(missing(wanted)) +
                         ". Is this Debian 12 with its main archive reachable? Offline, install "
                         "them by other means and run this again.")
