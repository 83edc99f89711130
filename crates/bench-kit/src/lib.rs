//! What programs that measure stores share: items that can be told from their number, charts, tables, and sizes as people
//! write them, and what a device gives to readers that do nothing else. The command line and the comparison with other engines use
//! it; it knows of no store.

pub mod device;
pub mod generate;
pub mod plot;
pub mod sizes;
pub mod table;
