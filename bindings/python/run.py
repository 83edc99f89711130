#!/usr/bin/env python3
"""Builds and tests the package on a machine that has Python and Rust.

    python bindings/python/run.py build            a wheel, in target/wheels
    python bindings/python/run.py test             builds, then runs the tests, the examples and the type checker
    python bindings/python/run.py test -k arrow    the same, with arguments for pytest
    python bindings/python/run.py peers            the longer suites: Feast, Scrapy, zarr
    python bindings/python/run.py bench [ARGS]     the benchmark, beside other stores; --help says what there is
    python bindings/python/run.py features [ARGS]  Feast's features, beside its store for Redis

A virtual environment in `target/venv` (or where SILTSTONE_VENV says) gets what is needed from PyPI; nothing else is
touched. With SILTSTONE_PROFILE=quick the build optimises less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target"
ENVIRONMENT = Path(os.environ.get("SILTSTONE_VENV", TARGET / "venv"))
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = {
    "build": "requirements/build.txt",
    "test": "requirements/test.txt",
    "peers": "requirements/peers.txt",
    "bench": "requirements/bench.txt",
    "features": "requirements/peers.txt",
}


def run(*command: str | Path) -> None:
    """Runs a command here, and ends with its exit code where it fails."""
    print("$", *(os.path.relpath(part, HERE) if isinstance(part, Path) else part for part in command), flush=True)
    environment = {**os.environ, "VIRTUAL_ENV": str(ENVIRONMENT), "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([str(part) for part in command], cwd=HERE, env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def install(*names: str) -> None:
    """Makes the environment, and installs what is needed for these commands."""
    if not PYTHON.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    files = [argument for name in names for argument in ("-r", REQUIREMENTS[name])]
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *files)


def build() -> Path:
    """Builds a wheel and returns it."""
    wheels = TARGET / "wheels"
    for old in wheels.glob("siltstone-*.whl"):
        old.unlink()
    profile = os.environ.get("SILTSTONE_PROFILE", "release")
    run(PYTHON, "-m", "maturin", "build", "--profile", profile, "--locked", "--out", wheels)
    (wheel,) = wheels.glob("siltstone-*.whl")
    return wheel


def install_wheel() -> None:
    """Builds the wheel and installs it: tests see what users get, not the sources."""
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps", build())


def main(arguments: list[str]) -> None:
    command, *rest = arguments or ["help"]
    if command not in REQUIREMENTS:
        print(__doc__)
        sys.exit(0 if command in ("help", "-h", "--help") else 2)
    install("build", *([command] if command != "build" else []))
    if command == "build":
        print(build())
        return
    install_wheel()
    match command:
        case "test":
            run(PYTHON, "-m", "pytest", *rest)
            if not rest:
                run(PYTHON, "-m", "pytest", "--pyargs", "siltstone", "--doctest-modules", "--doctest-ignore-import-errors", "-p", "no:cacheprovider")
                run(PYTHON, "-m", "mypy", "--strict", "-p", "siltstone")
                run(PYTHON, "-m", "mypy.stubtest", "siltstone._siltstone")
        case "peers":
            run(PYTHON, "-m", "pytest", "-o", "asyncio_mode=auto", "tests/peers", *rest)
        case "bench":
            run(PYTHON, HERE / "bench" / "contest.py", *rest)
        case "features":
            run(PYTHON, HERE / "bench" / "features.py", *rest)


if __name__ == "__main__":
    main(sys.argv[1:])
