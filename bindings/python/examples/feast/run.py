#!/usr/bin/env python3
"""A feature repository from its data to its answers, without network: `python examples/feast/run.py`."""

import asyncio
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
from feast import FeatureStore

HERE = Path(__file__).resolve().parent
CUSTOMERS = 20_000
FEATURES = [f"order_totals:{name}" for name in ("orders_last_week", "mean_price", "favourite", "taste")]


def make_data(path: Path) -> None:
    """Writes what a warehouse would: a row for each customer, an hour old."""
    generator, now = np.random.default_rng(1), datetime.now(timezone.utc)
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(
        {
            "customer_id": np.arange(CUSTOMERS),
            "event_timestamp": now - timedelta(hours=1),
            "created": now,
            "orders_last_week": generator.poisson(3, CUSTOMERS),
            "mean_price": generator.random(CUSTOMERS, dtype="f4") * 100,
            "favourite": generator.choice(["tea", "coffee", "cocoa"], CUSTOMERS),
            "taste": list(generator.random((CUSTOMERS, 8), dtype="f4")),
        }
    ).to_parquet(path)


def main() -> None:
    os.chdir(HERE)
    make_data(HERE / "data" / "orders.parquet")
    import features

    store = FeatureStore(repo_path=str(HERE))
    store.apply([features.customer, features.order_totals])
    now = datetime.now(timezone.utc)
    store.materialize(now - timedelta(days=2), now)
    rows = [{"customer_id": number} for number in (7, 19_999, 1_000_000)]
    answer = store.get_online_features(features=FEATURES, entity_rows=rows).to_dict()
    for name, column in answer.items():
        print(f"{name:20}", *column, sep="  ")
    assert answer["favourite"][0] in ("tea", "coffee", "cocoa") and answer["favourite"][2] is None
    awaited = asyncio.run(store.get_online_features_async(features=FEATURES, entity_rows=rows)).to_dict()
    assert awaited == answer
    store.teardown()


if __name__ == "__main__":
    main()
