//! The table of commands.

use super::Context;
use crate::failure::Outcome;
use crate::resp::{Output, Request};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// Flags of a command; see [`flags`].
pub type Flags = u32;

/// The flags there are.
pub mod flags {
    /// May change data.
    pub const WRITE: u32 = 1;
    /// Reads data and changes none.
    pub const READONLY: u32 = 1 << 1;
    /// Is refused where the disk is full.
    pub const DENYOOM: u32 = 1 << 2;
    /// For operators.
    pub const ADMIN: u32 = 1 << 3;
    /// Takes constant or logarithmic time.
    pub const FAST: u32 = 1 << 4;
    /// Is taken before the client has said who it is.
    pub const NO_AUTH: u32 = 1 << 5;
    /// Is refused within a transaction.
    pub const NO_MULTI: u32 = 1 << 6;
    /// Dangerous in the sense of ACL categories.
    pub const DANGEROUS: u32 = 1 << 7;
    /// Works on the connection, or on what no key names: stands alone in a pipeline.
    pub const ALONE: u32 = 1 << 8;
    /// Works on any keys: takes the lock of all.
    pub const ALL_KEYS: u32 = 1 << 9;
    /// Touches neither the store nor anything that blocks.
    pub const INSTANT: u32 = 1 << 10;
    /// Is carried out within a transaction rather than queued.
    pub const UNQUEUED: u32 = 1 << 11;

    /// Waits for others, and therefore takes no locks.
    pub const WAITS: u32 = 1 << 12;

    /// May take much longer than reading what it works on.
    pub const LONG: u32 = 1 << 13;

    /// Names as `COMMAND` shows them.
    pub const NAMES: [(u32, &str); 7] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
    ];
}

/// Where the keys of a command are.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// It has none.
    None,
    /// From argument `first` to argument `last`, counted from the end where it is negative, every `step`-th.
    Range {
        /// The first.
        first: usize,
        /// The last.
        last: isize,
        /// From one to the next.
        step: usize,
    },
    /// As many as argument 1 says, from argument 2 on.
    Counted,
    /// Those of MIGRATE.
    Migrated,
}

impl Keys {
    /// Only argument 1.
    pub const FIRST: Self = Self::Range { first: 1, last: 1, step: 1 };
    /// Arguments 1 and 2.
    pub const TWO: Self = Self::Range { first: 1, last: 2, step: 1 };
    /// All arguments.
    pub const ALL: Self = Self::Range { first: 1, last: -1, step: 1 };

    /// Places of the keys of a request.
    pub fn places(self, request: &Request) -> impl Iterator<Item = usize> + Clone + use<> {
        let count = request.len();
        let (first, end, step) = match self {
            Self::None => (1, 1, 1),
            Self::Range { first, last, step } => {
                let last = if last < 0 { count.saturating_add_signed(last) } else { last.unsigned_abs() };
                (first, (last + 1).min(count), step)
            }
            Self::Counted => {
                let keys = crate::number::integer(request.get(1)).and_then(|keys| usize::try_from(keys).ok());
                (2, keys.unwrap_or(0).saturating_add(2).min(count), 1)
            }
            Self::Migrated => {
                let places = super::migrate::places(request);
                (places.start, places.end, 1)
            }
        };
        (first..end).step_by(step)
    }
}

/// What a client may do with the keys of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read them.
    Read,
    /// Change them.
    Write,
}

/// Carries out a command; replies go to the output, failures replace them.
pub type Run = fn(&mut Context<'_, '_>, &Request, &mut Output) -> Outcome;

/// One command.
#[derive(Debug)]
pub struct Spec {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Arguments with the name; at least so many where it is negative.
    pub arity: isize,
    /// Its flags.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: Keys,
    /// From which argument on, and in which steps, it names elements of its first key; 0 where it does not.
    pub elements: (usize, usize),
    /// Its family, as `COMMAND DOCS` calls it.
    pub group: &'static str,
    /// The version of Redis that has it first.
    pub since: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Carries it out.
    pub run: Run,
}

impl Spec {
    /// A command without keys.
    pub const fn new(name: &'static str, arity: isize, flags: Flags, run: Run) -> Self {
        let (group, since, summary) = ("server", "1.0.0", "");
        Self { name, arity, flags, keys: Keys::None, elements: (0, 0), group, since, summary, run }
    }

    /// A command on keys.
    pub const fn on(name: &'static str, arity: isize, flags: Flags, keys: Keys, run: Run) -> Self {
        let mut spec = Self::new(name, arity, flags, run);
        spec.keys = keys;
        spec
    }

    /// Says what it is for.
    pub const fn about(mut self, group: &'static str, since: &'static str, summary: &'static str) -> Self {
        (self.group, self.since, self.summary) = (group, since, summary);
        self
    }

    /// Says where it names elements of its first key.
    pub const fn elements(mut self, first: usize, step: usize) -> Self {
        self.elements = (first, step);
        self
    }

    /// Whether it has all of `flags`.
    pub fn is(&self, flags: Flags) -> bool {
        self.flags & flags == flags
    }

    /// Whether a request has as many arguments as it takes.
    pub fn takes(&self, request: &Request) -> bool {
        let arguments = isize::try_from(request.len()).unwrap_or(isize::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// Whether it can be one of several commands in a unit of work.
    pub fn is_joinable(&self) -> bool {
        !matches!(self.keys, Keys::None) && self.flags & (flags::ALONE | flags::ALL_KEYS) == 0
    }

    /// Whether it changes data.
    pub fn writes(&self) -> bool {
        self.is(flags::WRITE)
    }

    /// ACL categories that it is in.
    pub fn categories(&self) -> Vec<&'static str> {
        let mut all = vec![match self.group {
            "generic" => "keyspace",
            "transactions" => "transaction",
            "server" | "cluster" => "admin",
            other => other,
        }];
        if self.group == "server" && !self.is(flags::ADMIN) {
            all.clear();
        }
        for (flag, name) in [(flags::WRITE, "write"), (flags::READONLY, "read"), (flags::ADMIN, "admin")] {
            if self.is(flag) && !all.contains(&name) {
                all.push(name);
            }
        }
        if self.flags & (flags::DANGEROUS | flags::ADMIN) != 0 {
            all.push("dangerous");
        }
        all.push(if self.is(flags::FAST) { "fast" } else { "slow" });
        all
    }
}

/// All tables, by family.
static FAMILIES: [&[Spec]; 24] = [
    super::strings::TABLE,
    super::lcs::TABLE,
    super::bits::TABLE,
    super::bit_field::TABLE,
    super::keys::TABLE,
    super::expire::TABLE,
    super::scan::TABLE,
    super::dump::TABLE,
    super::hashes::TABLE,
    super::hash_scan::TABLE,
    super::field_expire::TABLE,
    super::sets::TABLE,
    super::set_operations::TABLE,
    super::transactions::TABLE,
    super::connection::TABLE,
    super::client::TABLE,
    super::introspect::TABLE,
    super::config::TABLE,
    super::operations::TABLE,
    super::replication::TABLE,
    super::cluster::TABLE,
    super::clusterx::TABLE,
    super::migrate::TABLE,
    super::acl::TABLE,
];

/// Hashes the names of commands, of which there are few, and none that a client could choose: FNV-1a.
#[derive(Clone, Copy, Debug)]
struct NameHasher(u64);

impl Default for NameHasher {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

type ByName = HashMap<&'static [u8], (usize, &'static Spec), BuildHasherDefault<NameHasher>>;

static BY_NAME: LazyLock<ByName> =
    LazyLock::new(|| table().enumerate().map(|(at, spec)| (spec.name.as_bytes(), (at, spec))).collect());

/// All commands.
pub fn table() -> impl Iterator<Item = &'static Spec> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The command `name`, in any case, and its number in the table.
pub fn lookup(name: &[u8]) -> Option<(usize, &'static Spec)> {
    let mut lower = [0u8; 24];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_can_be_found_and_is_described() {
        for spec in table() {
            assert!(
                std::ptr::eq(lookup(spec.name.to_uppercase().as_bytes()).unwrap().1, spec),
                "{}",
                spec.name
            );
            assert!(!spec.summary.is_empty(), "{} has no summary", spec.name);
            assert!(
                spec.is_joinable() || spec.flags & (flags::ALONE | flags::ALL_KEYS) != 0,
                "{}",
                spec.name
            );
        }
        assert!(lookup(b"lpush").is_none());
        assert!(lookup(&[b'a'; 100]).is_none());
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let places = |words: &[&str]| {
            let request = Request::of(words);
            lookup(words[0].as_bytes()).unwrap().1.keys.places(&request).collect::<Vec<_>>()
        };
        assert_eq!(places(&["get", "a"]), [1]);
        assert_eq!(places(&["mset", "a", "1", "b", "2"]), [1, 3]);
        assert_eq!(places(&["sintercard", "2", "a", "b", "limit", "1"]), [2, 3]);
        assert_eq!(places(&["sintercard", "99", "a"]), [2]);
        assert_eq!(places(&["bitop", "and", "d", "a", "b"]), [2, 3, 4]);
        assert_eq!(places(&["migrate", "h", "1", "a", "0", "9"]), [3]);
        assert_eq!(places(&["migrate", "h", "1", "", "0", "9", "copy", "keys", "a", "b"]), [8, 9]);
        assert!(places(&["ping"]).is_empty());
    }
}
