//! What each workload does: a mix of operations on items chosen by popularity.

/// A workload by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Write every item once, in random order, into a new store
    Fill,
    /// Get items that exist
    ReadHit,
    /// Get keys that do not exist, of existing groups where there are groups
    ReadMiss,
    /// Gets and blind puts of existing items
    MixedBlind,
    /// Gets and read-modify-writes of existing items
    MixedRmw,
    /// Add one to counters, one for each item, by merges, which read nothing
    Merge,
    /// The same by read-modify-writes, to compare
    MergeRmw,
    /// List whole groups
    Scan,
    /// 50 % gets, 50 % puts
    YcsbA,
    /// 95 % gets, 5 % puts
    YcsbB,
    /// Gets only
    YcsbC,
    /// 95 % gets of the latest items, 5 % inserts
    YcsbD,
    /// 95 % scans of up to 100 items of a group, 5 % inserts
    YcsbE,
    /// 50 % gets, 50 % read-modify-writes
    YcsbF,
    /// Blind puts of existing items
    Overwrite,
    /// Look at values where they stand, without a copy
    GetWith,
    /// Ask whether items are there, half of which are
    Contains,
    /// Put items where they are not there, of which half are new
    InsertIfAbsent,
    /// Get items and write them where nobody else has
    CompareAndSet,
    /// Get items that would be made if they were not there
    GetOrInsert,
    /// Read items and write them again in a transaction, of --batch items each
    Transaction,
    /// Delete items; they are put again, which counts as no call
    Delete,
    /// List whole groups backwards
    ScanReverse,
    /// List the keys of whole groups
    ScanKeys,
}

/// One kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Get items that exist.
    Get,
    /// Get keys that do not.
    GetMissing,
    /// Put items that exist.
    Put,
    /// Read-modify-write an item that exists.
    Update,
    /// Put items that do not exist yet.
    Insert,
    /// List a group.
    Scan,
    /// Add one to a counter by a merge.
    Merge,
    /// Add one to a counter by a read-modify-write.
    Increment,
    /// Look at the value of an item that exists.
    GetWith,
    /// Ask whether items are there.
    Contains,
    /// Put items that exist where they do not.
    AddExisting,
    /// Put items that do not exist where they do not.
    AddNew,
    /// Get an item and write it where it has not changed.
    CompareAndSet,
    /// Get an item that would be made.
    GetOrInsert,
    /// Read items and write them in a transaction.
    Transact,
    /// Delete items that exist.
    Delete,
    /// List a group backwards.
    ScanReverse,
    /// List the keys of a group.
    ScanKeys,
}

impl Operation {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 18] = [
        Self::Get,
        Self::GetMissing,
        Self::Put,
        Self::Update,
        Self::Insert,
        Self::Scan,
        Self::Merge,
        Self::Increment,
        Self::GetWith,
        Self::Contains,
        Self::AddExisting,
        Self::AddNew,
        Self::CompareAndSet,
        Self::GetOrInsert,
        Self::Transact,
        Self::Delete,
        Self::ScanReverse,
        Self::ScanKeys,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetMissing => "get_missing",
            Self::Put => "put",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Scan => "scan",
            Self::Merge => "merge",
            Self::Increment => "increment",
            Self::GetWith => "get_with",
            Self::Contains => "contains",
            Self::AddExisting => "add_existing",
            Self::AddNew => "add_new",
            Self::CompareAndSet => "compare_and_set",
            Self::GetOrInsert => "get_or_insert",
            Self::Transact => "transaction",
            Self::Delete => "delete",
            Self::ScanReverse => "scan_reverse",
            Self::ScanKeys => "scan_keys",
        }
    }

    /// Whether a client waits for a write.
    pub fn writes(self) -> bool {
        use Operation::{
            AddExisting, AddNew, CompareAndSet, Delete, GetOrInsert, Increment, Insert, Merge, Put, Transact,
            Update,
        };
        matches!(self, Put | Update | Insert | Merge | Increment)
            || matches!(self, AddExisting | AddNew | CompareAndSet | GetOrInsert | Transact | Delete)
    }

    /// Whether one call can be of several items.
    pub fn takes_batches(self) -> bool {
        use Operation::{
            AddExisting, AddNew, Contains, Delete, Get, GetMissing, Insert, Merge, Put, Transact,
        };
        matches!(self, Get | GetMissing | Put | Insert | Merge | Contains)
            || matches!(self, AddExisting | AddNew | Transact | Delete)
    }
}

/// Two kinds of call and the share of the first, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The first kind.
    pub first: Operation,
    /// Its share of the calls, in per cent.
    pub first_percent: u32,
    /// The other kind.
    pub second: Operation,
}

impl Workload {
    /// The mix of calls.
    pub fn mix(self, read_percent: u32) -> Mix {
        use Operation::{Get, GetMissing, Increment, Insert, Merge, Put, Scan, Update};
        let mix = |first, first_percent, second| Mix { first, first_percent, second };
        let only = |operation| Mix { first: operation, first_percent: 100, second: operation };
        match self {
            Self::Fill => only(Insert),
            Self::ReadHit | Self::YcsbC => only(Get),
            Self::ReadMiss => only(GetMissing),
            Self::Scan => only(Scan),
            Self::Overwrite => only(Put),
            Self::MixedBlind => mix(Get, read_percent, Put),
            Self::MixedRmw => mix(Get, read_percent, Update),
            Self::Merge => only(Merge),
            Self::MergeRmw => only(Increment),
            Self::YcsbA => mix(Get, 50, Put),
            Self::YcsbB => mix(Get, 95, Put),
            Self::YcsbD => mix(Get, 95, Insert),
            Self::YcsbE => mix(Scan, 95, Insert),
            Self::YcsbF => mix(Get, 50, Update),
            Self::GetWith => only(Operation::GetWith),
            Self::Contains => only(Operation::Contains),
            Self::InsertIfAbsent => mix(Operation::AddExisting, 50, Operation::AddNew),
            Self::CompareAndSet => only(Operation::CompareAndSet),
            Self::GetOrInsert => only(Operation::GetOrInsert),
            Self::Transaction => only(Operation::Transact),
            Self::Delete => only(Operation::Delete),
            Self::ScanReverse => only(Operation::ScanReverse),
            Self::ScanKeys => only(Operation::ScanKeys),
        }
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        clap::ValueEnum::to_possible_value(&self)
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the store has to be opened for writing.
    pub fn writes(self) -> bool {
        let mix = self.mix(50);
        mix.first.writes() || mix.second.writes()
    }

    /// Whether items are added.
    pub fn inserts(self) -> bool {
        matches!(self.mix(50).second, Operation::Insert | Operation::AddNew)
    }

    /// Whether counters are counted up, which lie in a keyspace of their own.
    pub fn counts(self) -> bool {
        matches!(self, Self::Merge | Self::MergeRmw)
    }

    /// Whether groups are listed.
    pub fn scans(self) -> bool {
        matches!(self.mix(50).first, Operation::Scan | Operation::ScanReverse | Operation::ScanKeys)
    }

    /// Whether the items written last are the most popular.
    pub fn prefers_latest(self) -> bool {
        self == Self::YcsbD
    }

    /// How many items a scan stops after, at most: YCSB's are short.
    pub fn longest_scan(self) -> Option<u64> {
        (self == Self::YcsbE).then_some(100)
    }

    /// YCSB's constant for YCSB, uniform otherwise.
    pub fn default_skew(self) -> f64 {
        match self {
            Self::YcsbA | Self::YcsbB | Self::YcsbC | Self::YcsbD | Self::YcsbE | Self::YcsbF => 0.99,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn names_are_those_of_the_documentation() {
        let names: Vec<String> = Workload::value_variants().iter().map(|w| w.name()).collect();
        assert_eq!(
            names.join(" "),
            "fill read-hit read-miss mixed-blind mixed-rmw merge merge-rmw scan ycsb-a ycsb-b ycsb-c ycsb-d ycsb-e ycsb-f \
             overwrite get-with contains insert-if-absent compare-and-set get-or-insert transaction delete scan-reverse scan-keys"
        );
    }

    #[test]
    fn read_workloads_do_not_write() {
        for read_only in [Workload::ReadHit, Workload::ReadMiss, Workload::Scan, Workload::YcsbC] {
            assert!(!read_only.writes());
        }
        assert!(Workload::MixedRmw.writes() && Workload::YcsbE.inserts() && Workload::Fill.inserts());
        for (at, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
        }
    }
}
