//! The shared language of Siltstone: what a store's layout *is*, before anything is read or written.
//!
//! A [`Design`] is a value. The engine runs it, the model prices it, and every table file records which part
//! of it made the file. Four nouns hold every layout: **Level › Region › Run › Table**. A store is a trie
//! over the bits of its keys' digests; the trie's nodes at one depth are a *level*, a node is a *region*, a
//! region holds a list of *runs* (newest first), and a run is a list of immutable *tables* that are disjoint
//! in digest.
//!
//! | module | holds |
//! |---|---|
//! | [`digest`] | the keyed hash, [`digest::Digest`] and [`digest::TriePath`] arithmetic |
//! | [`prefix`] | [`PrefixRule`]: where the prefix of a semi-sorted key ends |
//! | [`schema`] | [`Schema`]: user key → [`EncodedKey`] (digest, order, filter fingerprint) |
//! | [`design`] | [`Design`], [`LevelSpec`], [`WriteBufferSpec`], [`Format`], [`IndexSpec`], [`TableFilterSpec`], [`RegionFilterSpec`] |
//! | `stored` | levels as JSON, in the present form and in the one before |
//! | [`shape`] | [`Shape`]: what a planner may see of a store |
//! | [`plan`](mod@plan) | [`plan()`](plan::plan): the pure, deterministic compaction planner; pacing and staggering |
//! | [`redesign`] | what a store still has of the design before, and the next task that ends it |
//! | [`reason`] | why the planner chose a task, in words |
//! | [`presets`] | named designs |
//! | [`check`] | rejects an unsound design, naming the field |
//!
//! ```
//! use siltstone_design::{Design, presets};
//!
//! let design = presets::stepped_merge();
//! design.check().unwrap();
//! assert_eq!(Design::preset("stepped-merge"), Some(design));
//! ```

pub mod check;
pub mod design;
pub mod digest;
pub mod plan;
pub mod prefix;
pub mod presets;
pub mod reason;
pub mod redesign;
pub mod schema;
mod schema_text;
pub mod shape;
mod stored;

pub use check::DesignError;
pub use design::{
    Compression, Design, Format, IndexSpec, LevelSpec, RegionFilterSpec, TableFilterSpec, ThirdLevel,
    WriteBufferSpec,
};
pub use digest::{Digest, HashSecret, TriePath};
pub use plan::Task;
pub use prefix::{PrefixFn, PrefixRule, PrefixRules, RuleName};
pub use reason::Reason;
pub use schema::{EncodedKey, Encoder, KeyError, Schema, SuffixOrder};
pub use shape::{RegionShape, RunShape, Shape};
