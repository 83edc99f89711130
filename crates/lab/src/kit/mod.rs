//! What every program takes that measures stores: items that can be told from their number, charts, tables,
//! sizes as people write them, and what a device gives to readers that do nothing else. It knows of no store.

pub mod device;
pub mod generate;
pub mod plot;
pub mod sizes;
pub mod table;
