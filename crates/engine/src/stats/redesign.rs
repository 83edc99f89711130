//! Redesigns in numbers: one that is under way, one that would pay, and those that there were.

use crate::events::Time;
use serde::Serialize;
use siltstone_design::{Design, Schema};
use siltstone_model::advise::Change;

/// How far a redesign is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RedesignStats {
    /// Name of the design before: of a preset, or `custom`.
    pub from: String,
    /// Name of the design since.
    pub to: String,
    /// Share of the tables' bytes that are as the design has them: 1 once nothing is left of earlier designs.
    pub done: f64,
    /// Bytes of tables that are still to be rewritten, which is about what will be written.
    pub remaining_bytes: u64,
    /// Regions, or parts of the trie, that are.
    pub remaining_regions: u64,
    /// Microseconds of device and processor that this takes, as the model prices it: all that is left is read
    /// and written once.
    pub remaining_us: f64,
}

/// A design that would suit a keyspace's workload better than its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProposedDesign {
    /// The design.
    pub design: Design,
    /// Its name: of a preset, or of what it was made from.
    pub name: String,
    /// The share of an operation's time that it would save, in the mean.
    pub saved_share: f64,
    /// Operations after which the change would have paid for itself.
    pub pays_after_operations: f64,
    /// Whether staying has cost more than changing would, so that it is time.
    pub is_due: bool,
}

impl ProposedDesign {
    pub(crate) fn of(change: &Change, is_due: bool) -> Self {
        let Change { design, name, saved_share, .. } = change.clone();
        Self { design, name, saved_share, pays_after_operations: change.pays_after(), is_due }
    }
}

/// How far a change of a keyspace's schema is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SchemaChangeStats {
    /// The schema before.
    pub from: Schema,
    /// The schema that the keyspace is to have, or has.
    pub to: Schema,
    /// Name of the design that it has with that: of a preset, or `custom`.
    pub design: String,
    /// Share of the keyspace that is copied: 1 once it has the schema.
    pub done: f64,
    /// Bytes that are still to be copied, about: of tables, then of what was written to the log meanwhile.
    pub remaining_bytes: u64,
    /// Why the keyspace keeps its schema, where it was found that it has to, or where the change was
    /// cancelled.
    pub failure: Option<String>,
}

/// A redesign that a keyspace has had.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DesignChange {
    /// The design before.
    pub from: Design,
    /// The design since.
    pub to: Design,
    /// Sequence number of the newest write before it.
    pub sequence: u64,
    /// When it began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// When nothing was left of earlier designs; none as long as something is.
    pub settled_ms: Option<u64>,
    /// Why it was made.
    pub why: RedesignReason,
}

impl std::fmt::Display for DesignChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [from, to] = [&self.from, &self.to].map(Design::summary);
        write!(f, "{} from {from} to {to}: {}; ", Time(self.at_ms), self.why)?;
        match self.settled_ms {
            Some(settled_ms) => write!(f, "settled {}", Time(settled_ms)),
            None => write!(f, "under way"),
        }
    }
}

/// Why a keyspace got another design. As JSON it is what its [`Display`](std::fmt::Display) says.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = siltstone::Db::open(dir.path().join("db"), siltstone::Options::default())?;
/// let items = db.keyspace("items", siltstone::KeyspaceOptions::default())?;
/// items.redesign(siltstone::presets::lean())?;
/// let why = items.design_history()[0].why;
/// assert_eq!(why, siltstone::RedesignReason::Asked);
/// assert_eq!(why.to_string(), "it was asked for");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
#[non_exhaustive]
pub enum RedesignReason {
    /// Somebody called [`Keyspace::redesign`](crate::Keyspace::redesign).
    Asked,
    /// The store chose it by itself ([`AutoDesign::Apply`](crate::AutoDesign::Apply)).
    Chosen {
        /// The share of an operation's time that it was predicted to save.
        saved_share: f64,
    },
}

impl std::fmt::Display for RedesignReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked => write!(f, "it was asked for"),
            Self::Chosen { saved_share } => {
                write!(f, "the store chose it, to save {:.1} % of an operation's time", 100.0 * saved_share)
            }
        }
    }
}

impl From<RedesignReason> for String {
    fn from(reason: RedesignReason) -> Self {
        reason.to_string()
    }
}
