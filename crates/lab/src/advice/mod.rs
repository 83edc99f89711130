//! What designs are predicted to cost, and how far that is from what they do.

mod lines;
mod mixes;
mod points;
mod predictions;
mod record;
mod regret;
mod regret_table;
mod stage;
mod trade_offs;

pub use predictions::Args as Predictions;
pub use predictions::run as predictions;
pub use regret::Args as Regret;
pub use regret::run as regret;
pub use trade_offs::Args as TradeOffs;
pub use trade_offs::run as trade_offs;
