//! Settings: those that mean something here, and those of Redis that clients and test suites set, which are
//! kept and shown.
//!
//! `table.rs` says what there is. A setting's value is text; what is asked for at every command is read into
//! a number once it changes. A configuration file has a setting a line, as `redis.conf`.

mod table;

pub use table::{Kind, SETTINGS, Setting};

use crate::glob;
use crate::keyspace::PackLimits;
use crate::resp::Limits;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// All settings.
#[derive(Debug)]
pub struct Config {
    values: RwLock<BTreeMap<&'static str, String>>,
    /// `user` lines of the file, for the ACL.
    pub users: Vec<Vec<String>>,
    argument_bytes: AtomicUsize,
    request_bytes: AtomicUsize,
    hash_entries: AtomicUsize,
    hash_value_bytes: AtomicUsize,
    intset_entries: AtomicUsize,
    slow_us: AtomicU64,
    least_replicas: AtomicU64,
    replica_lag_seconds: AtomicU64,
    idle_seconds: AtomicU64,
    output_limits: [AtomicUsize; 3],
}

/// What a client may leave unread (`client-output-buffer-limit`, class `normal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes at which it is ended at once; 0 = never.
    pub hard_bytes: usize,
    /// Bytes that it may leave unread for some seconds; 0 = any.
    pub soft_bytes: usize,
    /// For how long.
    pub soft_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        let values = SETTINGS.iter().map(|setting| (setting.name, setting.default.to_owned())).collect();
        let config = Self {
            values: RwLock::new(values),
            users: Vec::new(),
            argument_bytes: AtomicUsize::default(),
            request_bytes: AtomicUsize::default(),
            hash_entries: AtomicUsize::default(),
            hash_value_bytes: AtomicUsize::default(),
            intset_entries: AtomicUsize::default(),
            slow_us: AtomicU64::default(),
            least_replicas: AtomicU64::default(),
            replica_lag_seconds: AtomicU64::default(),
            idle_seconds: AtomicU64::default(),
            output_limits: Default::default(),
        };
        config.refresh();
        config
    }
}

/// Reads a size: a number, and a unit such as `mb` (1024²) or `m` (1000²).
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text.get(digits.len()..)? {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| format!("line {}: {line}: {why}", number + 1);
            let words = crate::resp::split_words(line.as_bytes())
                .ok_or_else(|| wrong("quotes are not closed".into()))?;
            let words: Vec<String> =
                words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            let Some((name, values)) = words.split_first() else { continue };
            if name.eq_ignore_ascii_case("user") {
                self.users.push(values.to_vec());
                continue;
            }
            self.set_at_start(name, &values.join(" ")).map_err(wrong)?;
        }
        Ok(())
    }

    /// Sets a setting before the server starts, when all of them can be set.
    ///
    /// # Errors
    /// Why not.
    pub fn set_at_start(&self, name: &str, value: &str) -> Result<(), String> {
        let setting = table::find(name).ok_or("there is no such setting; CONFIG GET * lists them")?;
        let value = setting.check(value)?;
        self.values.write().insert(setting.name, value);
        self.refresh();
        Ok(())
    }

    /// Sets some settings, all or none; returns those that were set.
    ///
    /// # Errors
    /// The reply to the client.
    pub fn set(&self, pairs: &[(String, String)]) -> Result<Vec<&'static str>, String> {
        let mut checked: Vec<(&'static str, String)> = Vec::new();
        for (name, value) in pairs {
            let setting = table::find(name)
                .ok_or_else(|| format!("Unknown option or number of arguments for CONFIG SET - '{name}'"))?;
            let failed =
                |why: String| format!("CONFIG SET failed (possibly related to argument '{name}') - {why}");
            if !setting.can_change {
                return Err(failed("can't set immutable config".into()));
            }
            if checked.iter().any(|(other, _)| *other == setting.name) {
                return Err(failed("duplicate parameter".into()));
            }
            checked.push((setting.name, setting.check(value).map_err(failed)?));
        }
        let names = checked.iter().map(|(name, _)| *name).collect();
        self.values.write().extend(checked);
        self.refresh();
        Ok(names)
    }

    /// The setting `name` as text; empty where there is none.
    pub fn text(&self, name: &str) -> String {
        self.values.read().get(name).cloned().unwrap_or_default()
    }

    /// The setting `name` as a number.
    pub fn number(&self, name: &str) -> u64 {
        self.values.read().get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// Whether the setting `name` is `yes`.
    pub fn is(&self, name: &str) -> bool {
        self.values.read().get(name).is_some_and(|value| value == "yes")
    }

    /// Settings whose names match any of `patterns`, each once.
    pub fn matching<'p>(
        &self,
        patterns: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> Vec<(&'static str, String)> {
        let matches =
            |name: &str| patterns.clone().any(|pattern| glob::matches_any_case(pattern, name.as_bytes()));
        let values = self.values.read();
        let mut found: Vec<_> = values
            .iter()
            .filter(|(name, _)| matches(name))
            .map(|(name, value)| (*name, value.clone()))
            .collect();
        // Old names are shown where they are asked for.
        for (alias, name) in table::ALIASES {
            if matches(alias) {
                found.push((alias, values.get(name).cloned().unwrap_or_default()));
            }
        }
        found
    }

    /// All settings as a file would hold them: those that differ from their defaults.
    pub fn file(&self) -> String {
        let values = self.values.read();
        let differs =
            |setting: &&Setting| values.get(setting.name).is_some_and(|value| value != setting.default);
        let line = |setting: &Setting| {
            let value = values.get(setting.name).cloned().unwrap_or_default();
            let quoted = value.is_empty() || (value.contains(' ') && !matches!(setting.kind, Kind::Words));
            if quoted {
                format!("{} \"{value}\"\n", setting.name)
            } else {
                format!("{} {value}\n", setting.name)
            }
        };
        SETTINGS.iter().filter(differs).map(line).collect()
    }

    fn refresh(&self) {
        let number = |name: &str| usize::try_from(self.number(name)).unwrap_or(usize::MAX);
        self.argument_bytes.store(number("proto-max-bulk-len"), Ordering::Relaxed);
        self.request_bytes.store(number("client-query-buffer-limit"), Ordering::Relaxed);
        self.hash_entries.store(number("hash-max-listpack-entries"), Ordering::Relaxed);
        self.hash_value_bytes.store(number("hash-max-listpack-value"), Ordering::Relaxed);
        self.intset_entries.store(number("set-max-intset-entries"), Ordering::Relaxed);
        let slow = self.text("slowlog-log-slower-than").parse::<i64>().unwrap_or(-1);
        self.slow_us.store(u64::try_from(slow).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.least_replicas.store(self.number("min-replicas-to-write"), Ordering::Relaxed);
        self.replica_lag_seconds.store(self.number("min-replicas-max-lag"), Ordering::Relaxed);
        self.idle_seconds.store(self.number("timeout"), Ordering::Relaxed);
        let text = self.text("client-output-buffer-limit");
        let mut words = text.split_whitespace().skip_while(|word| *word != "normal").skip(1);
        for limit in &self.output_limits {
            limit.store(words.next().and_then(|word| word.parse().ok()).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// How many replicas a write needs, and how many seconds they may be silent.
    pub fn least_replicas(&self) -> (u64, u64) {
        (self.least_replicas.load(Ordering::Relaxed), self.replica_lag_seconds.load(Ordering::Relaxed))
    }

    /// Seconds after which a silent client is ended; 0 = never.
    pub fn idle_seconds(&self) -> u64 {
        self.idle_seconds.load(Ordering::Relaxed)
    }

    /// What a client may leave unread.
    pub fn output_limits(&self) -> OutputLimits {
        let [hard_bytes, soft_bytes, soft_seconds] =
            self.output_limits.each_ref().map(|limit| limit.load(Ordering::Relaxed));
        OutputLimits { hard_bytes, soft_bytes, soft_seconds: soft_seconds as u64 }
    }

    /// Most bytes of an argument, and of a string.
    pub fn max_argument_bytes(&self) -> usize {
        self.argument_bytes.load(Ordering::Relaxed)
    }

    /// Commands that take longer, in microseconds, are logged as slow.
    pub fn slow_us(&self) -> u64 {
        self.slow_us.load(Ordering::Relaxed)
    }

    /// What a request may take.
    pub fn limits(&self, is_authenticated: bool) -> Limits {
        let argument_bytes = i64::try_from(self.max_argument_bytes()).unwrap_or(i64::MAX);
        let request_bytes = self.request_bytes.load(Ordering::Relaxed);
        Limits { argument_bytes, request_bytes, is_authenticated, ..Limits::default() }
    }

    /// How large a collection may be in one item.
    pub fn pack_limits(&self) -> PackLimits {
        let hash_entries = self.hash_entries.load(Ordering::Relaxed);
        let hash_value_bytes = self.hash_value_bytes.load(Ordering::Relaxed);
        // Who raises Redis' limits wants larger hashes in one piece; each change then writes all of it.
        let is_raised = hash_entries > 128 || hash_value_bytes > 64;
        PackLimits {
            hash_entries,
            hash_value_bytes,
            intset_entries: self.intset_entries.load(Ordering::Relaxed),
            packed_bytes: if is_raised { 256 << 10 } else { 4 << 10 },
            packed_elements: 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_written() {
        let mut config = Config::default();
        config
            .read("# comment\nport 7000\nmaxmemory 64mb\nrequirepass \"a b\"\nuser ann on >pw ~* +@all\n")
            .unwrap();
        assert_eq!(config.number("port"), 7000);
        assert_eq!(config.number("maxmemory"), 64 << 20);
        assert_eq!(config.users.len(), 1);
        let mut again = Config::default();
        again.read(&config.file()).unwrap();
        assert_eq!(again.text("requirepass"), "a b");
        config.read("unixsocketperm 0770").unwrap();
        assert_eq!(config.text("unixsocketperm"), "770");
        assert!(config.read("unixsocketperm 780").is_err() && config.read("unixsocketperm 1777").is_err());
        assert!(config.read("prot 1").unwrap_err().contains("line 1"));
        assert!(config.read("port x").is_err());
    }

    #[test]
    fn settings_are_set_together_or_not_at_all() {
        let config = Config::default();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(config.set(&[pair("maxmemory", "1kb"), pair("appendfsync", "x")]).is_err());
        assert_eq!(config.number("maxmemory"), 0);
        assert!(config.set(&[pair("databases", "3")]).unwrap_err().contains("immutable"));
        config.set(&[pair("hash-max-ziplist-entries", "3")]).unwrap();
        assert_eq!(config.pack_limits().hash_entries, 3);
    }
}
