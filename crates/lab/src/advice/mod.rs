//! What designs are predicted to cost, and how far that is from what they do.

mod points;
mod predictions;
mod record;
mod trade_offs;

pub use predictions::Args as Predictions;
pub use predictions::run as predictions;
pub use trade_offs::Args as TradeOffs;
pub use trade_offs::run as trade_offs;
