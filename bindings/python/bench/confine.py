"""A memory cap by control group, so that page cache counts as well: what a process may not keep is read again.

A group is made in the memory controller's hierarchy (version 1) or in the unified one (version 2): within the group of this
process, or in the nearest one above that takes a limit. Root may make groups; on a desktop, `systemd-run --user --scope` puts
a program where it may. Where none can be made, the run is not capped, and its record says so.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Group:
    """A group with a limit, for one process after the other; removed by `remove`."""

    def __init__(self, name: str, cap: int) -> None:
        own = {}
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own.update(dict.fromkeys(controllers.split(","), path.strip("/")))
        self.path: Path | None = None
        if "memory" in own and (ROOT / "memory").is_dir():
            self.path = _make(ROOT / "memory", own["memory"], name, "memory.limit_in_bytes", cap)
        elif "" in own:
            unified = ROOT / "unified" if (ROOT / "unified").is_dir() else ROOT
            self.path = _make(unified, own[""], name, "memory.max", cap)
            if self.path:
                # Or what does not fit would be swapped, which no store was made for.
                with contextlib.suppress(OSError):
                    (self.path / "memory.swap.max").write_text("0")

    def kills(self) -> int:
        """Returns how many processes the kernel has killed in it because memory ran out."""
        for file in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError, AttributeError):
                for line in (self.path / file).read_text().splitlines():  # type: ignore[operator]
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def peak(self) -> int | None:
        """Returns the most bytes that it has held, page cache included."""
        for file in ("memory.max_usage_in_bytes", "memory.peak"):
            with contextlib.suppress(OSError, AttributeError):
                return int((self.path / file).read_text())  # type: ignore[operator]
        return None

    def remove(self) -> None:
        """Removes it, once its processes have ended."""
        if self.path:
            # Cached pages would keep a group of version 1 alive after its directory.
            with contextlib.suppress(OSError):
                (self.path / "memory.force_empty").write_text("0")
            with contextlib.suppress(OSError):
                self.path.rmdir()


def _make(hierarchy: Path, own: str, name: str, limit: str, cap: int) -> Path | None:
    for parent in (hierarchy / own, *(hierarchy / own).parents):
        if not parent.is_relative_to(hierarchy):
            return None
        path = parent / name
        try:
            path.mkdir()
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if (path / limit).exists():
                (path / limit).write_text(str(cap))
                return path
        path.rmdir()
    return None


def enter(path: str | None) -> None:
    """Moves this process into the group at `path`."""
    if path:
        (Path(path) / "cgroup.procs").write_text(str(os.getpid()))


def resident(pid: int | str = "self") -> int:
    """Returns the bytes of a process that belong to no file: what it has allocated. 0 where it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = text.partition("RssAnon:")[2].split()
    return int(found[0]) << 10 if found else 0
