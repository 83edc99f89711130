"""What the shop knows of its customers. `run.py` makes the data."""

from datetime import timedelta
from pathlib import Path

from feast import Entity, FeatureView, Field, FileSource, ValueType
from feast.types import Array, Float32, Int64, String

orders = FileSource(
    path=str(Path(__file__).parent / "data" / "orders.parquet"),
    timestamp_field="event_timestamp",
    created_timestamp_column="created",
)
customer = Entity(name="customer", join_keys=["customer_id"], value_type=ValueType.INT64)
order_totals = FeatureView(
    name="order_totals",
    entities=[customer],
    ttl=timedelta(days=30),
    schema=[
        Field(name="orders_last_week", dtype=Int64),
        Field(name="mean_price", dtype=Float32),
        Field(name="favourite", dtype=String),
        Field(name="taste", dtype=Array(Float32)),
    ],
    source=orders,
)
