"""Progress of long work: a bar of ``tqdm`` where that is installed, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def teller(
    progress: bool | Callable[[int], object], name: str, total: int | None
) -> Iterator[Callable[[int], object] | None]:
    """Yields what is to be called with the number of items done so far; None where nobody wants to know."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(desc=name, total=total, unit=" items", unit_scale=True) as bar:
        yield lambda done: bar.update(done - bar.n)
