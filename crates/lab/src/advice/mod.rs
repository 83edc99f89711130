//! What designs are predicted to cost, and how far that is from what they do.

mod client;
mod lines;
mod mixes;
mod phases;
mod points;
mod predictions;
mod record;
mod redesigns;
mod regret;
mod regret_table;
mod short_memory;
mod stage;
mod story_run;
mod trade_offs;

pub use phases::Args as Phases;
pub use phases::run as phases;
pub use predictions::Args as Predictions;
pub use predictions::run as predictions;
pub use redesigns::Args as Redesigns;
pub use redesigns::run as redesigns;
pub use regret::Args as Regret;
pub use regret::run as regret;
pub use short_memory::Args as ShortMemory;
pub use short_memory::run as short_memory;
pub use story_run::processor_time;
pub use trade_offs::Args as TradeOffs;
pub use trade_offs::run as trade_offs;
