//! Opening stores and naming keyspaces, with errors that say what to do.

use crate::failure::{Failure, Result, fail, usage};
use crate::sizes;
use crate::text;
use siltstone::{
    Compression, Db, Design, Durability, Keyspace, KeyspaceOptions, LevelStats, Options, PrefixRule, Schema,
    SuffixOrder, presets,
};
use std::path::Path;

/// The keyspace of commands that do not name one.
pub const DEFAULT_KEYSPACE: &str = "default";

/// Bytes of the event log that every command which writes keeps.
const EVENT_LOG_BYTES: u64 = 1 << 20;

/// How to lay out a keyspace that does not exist yet.
#[derive(clap::Args, Debug, Clone)]
pub struct CreateArgs {
    /// Schema of a new keyspace: point, or what of a key is its prefix: fixed:N (the first N bytes),
    /// delim:C[:COUNT] (up to and including the COUNT-th C), last-delim:C (the last C), suffix:N (all but the
    /// last N bytes), length:WIDTH (a big-endian length and what it counts), whole; each with :hashed behind
    /// it for suffixes by hash
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<Schema>,
    /// Order of the keys that share a prefix, in a new keyspace that is not `point` [default: ordered]
    #[arg(long, value_enum)]
    suffix: Option<Suffix>,
    /// Layout of a new keyspace (see `siltstone bench --help` for the names), with PRESET:SIZE with tables of
    /// another size, and with +dictionary behind it with tables that compress; auto takes what suits the
    /// memory budget, as `Options::auto` does
    #[arg(long, value_name = "PRESET[:SIZE][+dictionary]|auto", value_parser = NewPreset::parse)]
    preset: Option<NewPreset>,
    /// Merge operator of a new keyspace, for `siltstone merge`: add, add-saturating, append, append:HEX with
    /// a delimiter, set-union, set-union:BYTES for ids of one size, max, min, max-u64, min-u64
    #[arg(long, value_name = "NAME")]
    merge_operator: Option<String>,
}

/// `--suffix` as typed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Suffix {
    /// By hash: smallest index
    Hashed,
    /// By bytes: groups can be scanned in order
    Ordered,
}

impl Suffix {
    /// The order of suffixes that it names.
    pub fn order(self) -> SuffixOrder {
        match self {
            Self::Hashed => SuffixOrder::Hashed,
            Self::Ordered => SuffixOrder::Ordered,
        }
    }
}

/// A design and the name it was asked for by.
#[derive(Clone, Debug)]
pub struct Preset {
    /// The name.
    pub name: String,
    /// The design.
    pub design: Design,
}

/// A design for a new keyspace, as typed.
#[derive(Clone, Debug)]
pub enum NewPreset {
    /// What suits the memory budget.
    Auto,
    /// What was asked for by its name.
    Named(Preset),
}

impl NewPreset {
    /// Parses `--preset` where a keyspace may be made.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        parse_preset(text).map(Self::Named).map_err(|why| format!("{why}; auto takes what suits the memory"))
    }

    /// The design in a store that is opened with `options`.
    pub fn chosen(&self, options: &Options) -> Result<Preset> {
        match self {
            Self::Named(preset) => Ok(preset.clone()),
            Self::Auto => {
                let design = options.clone().with_preset("auto")?.default_design;
                Ok(Preset { name: design.preset_name(), design })
            }
        }
    }
}

/// Refuses a schema of which the command line does not know the prefix rule.
pub fn check_rule(schema: Option<&Schema>) -> Result<()> {
    if let Some(Schema::SemiSorted { prefix: PrefixRule::Named(name), .. }) = schema {
        usage!(
            "--schema named:{}: a prefix rule of a program's own is known to that program alone, which gives it in \
             Options::prefix_rules; the command line has fixed:N, delim:C, last-delim:C, suffix:N, length:WIDTH and whole",
            name.as_str()
        );
    }
    Ok(())
}

impl CreateArgs {
    /// The schema that was asked for, if any.
    fn schema(&self) -> Result<Option<Schema>> {
        check_rule(self.schema.as_ref())?;
        Ok(match (self.schema, self.suffix) {
            (Some(Schema::SemiSorted { prefix, .. }), Some(suffix)) => {
                Some(Schema::SemiSorted { prefix, suffix: suffix.order() })
            }
            (_, Some(_)) => {
                usage!("--suffix needs a schema with a prefix: add --schema fixed:N or --schema delim:C")
            }
            (schema, None) => schema,
        })
    }

    /// Whether anything is said of how to lay a new keyspace out.
    pub fn says_how(&self) -> bool {
        self.schema.is_some() || self.preset.is_some() || self.merge_operator.is_some()
    }

    /// The merge operator that was asked for, if any.
    pub fn merge_operator(&self) -> Option<&str> {
        self.merge_operator.as_deref()
    }

    /// Opens the keyspace `name`, creating it with `options`, those of [`check`](Self::check), where it does
    /// not exist.
    pub fn open_keyspace(&self, db: &Db, name: &str, mut options: KeyspaceOptions) -> Result<Keyspace> {
        if let Some(existing) = db.get_keyspace(name) {
            if let Some(design) = &options.design
                && existing.design() != *design
            {
                fail!(
                    "keyspace {name:?} exists with the preset {}, not {}; leave out --preset, or change it first: `siltstone \
                     redesign`",
                    existing.design().preset_name(),
                    design.preset_name()
                );
            }
            if self.schema()?.is_none() && self.merge_operator.is_none() {
                return Ok(existing);
            }
        }
        if let (None, Some(existing)) = (self.schema()?, db.get_keyspace(name)) {
            options.schema = existing.schema();
        }
        Ok(db.keyspace(name, options)?)
    }

    /// Refuses a key that does not fit the schema that was asked for, before a store or a keyspace is made
    /// for it.
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        // Without a schema an existing keyspace may have any; what no schema takes is refused.
        match self.schema()?.unwrap_or(Schema::Point).check_key(key) {
            Ok(_) => Ok(()),
            Err(error) => fail!("{error}"),
        }
    }

    /// Returns how a new keyspace is made in a store with `options`. Rejects what contradicts itself, or what
    /// such a store can't have, before anything is touched.
    pub fn check(&self, options: &Options) -> Result<KeyspaceOptions> {
        let schema = self.schema()?.unwrap_or(Schema::Point);
        let preset = self.preset.as_ref().map(|preset| preset.chosen(options)).transpose()?;
        if let Some(preset) = &preset {
            preset.check_for(&schema)?;
        }
        let design = preset.map(|preset| preset.design);
        let new = KeyspaceOptions { schema, design, merge_operator: self.merge_operator.clone() };
        options.check_keyspace(&new)?;
        Ok(new)
    }
}

impl Preset {
    /// Refuses a schema that the design can't hold, before anything is made for it.
    pub fn check_for(&self, schema: &Schema) -> Result<()> {
        match self.design.check_for(schema) {
            Ok(()) => Ok(()),
            Err(error) => usage!("--preset {} can't hold keys in groups: {}", self.name, error.message),
        }
    }
}

/// Parses `--preset`: a name, or a name and the size of level 0's tables, and `+dictionary` behind it for
/// tables that compress.
pub fn parse_preset(text: &str) -> std::result::Result<Preset, String> {
    let (text, compression) = text
        .strip_suffix("+dictionary")
        .map_or((text, Compression::None), |text| (text, Compression::Dictionary));
    let (name, size) = text.split_once(':').map_or((text, None), |(name, size)| (name, Some(size)));
    let Some(mut design) = Design::preset(name) else {
        return Err(format!("there is no preset {name:?}; there are: {}", presets::names()));
    };
    if let Some(size) = size {
        let bytes = sizes::parse_size(size).map_err(|why| format!("size of tables: {why}"))?;
        design = design.scaled_to(bytes);
        design.check().map_err(|why| format!("with tables of {bytes} bytes: {why}"))?;
    }
    design = design.with_compression(compression);
    Ok(Preset { name: design.preset_name(), design })
}

/// Reads a design from a file: its JSON alone, or what `siltstone advise --json` prints, whose best it then
/// is.
pub fn read_design(path: &Path) -> Result<Preset> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::at(path, e))?;
    let design = siltstone::parse_design(&text).map_err(|e| Failure::at(path, e))?;
    Ok(Preset { name: design.preset_name(), design })
}

/// Names a keyspace's schema as `--schema` and `--suffix` would say it.
pub fn schema_name(schema: &Schema) -> String {
    let Schema::SemiSorted { prefix, suffix } = schema else { return schema.name() };
    let order = match suffix {
        SuffixOrder::Hashed => "hashed",
        SuffixOrder::Ordered => "ordered",
    };
    format!("{}, {order} suffixes", Schema::ordered(*prefix).name())
}

/// Names a level: by its number, or one that only an earlier design has by its bits.
pub fn level_name(level: &LevelStats) -> String {
    if level.is_outgoing { format!("({} bits)", level.depth) } else { level.level.to_string() }
}

/// Opens an existing store for reading; another process may have it open for writing.
pub fn open_read_only(dir: &Path) -> Result<Db> {
    open_read_only_with(dir, Options::default())
}

/// As [`open_read_only`], with options of one's own.
pub fn open_read_only_with(dir: &Path, options: Options) -> Result<Db> {
    must_be_a_directory(dir)?;
    Ok(Db::open_read_only(dir, Options { create_if_missing: false, ..options })?)
}

/// Opens an existing store for writing, with an event log.
pub fn open_existing(dir: &Path, options: Options) -> Result<Db> {
    must_be_a_directory(dir)?;
    Ok(Db::open(dir, Options { create_if_missing: false, event_log_bytes: EVENT_LOG_BYTES, ..options })?)
}

/// Opens a store for writing, with an event log, creating it where `dir` does not exist or is empty.
pub fn open_or_create(dir: &Path, options: Options) -> Result<Db> {
    if dir.exists() && !dir.is_dir() {
        fail!("{}: not a directory", dir.display());
    }
    Ok(Db::open(dir, Options { create_if_missing: true, event_log_bytes: EVENT_LOG_BYTES, ..options })?)
}

/// Options for a single write by hand: on the disk when the command returns.
pub fn synced() -> Options {
    Options { durability: Durability::Synced, ..Options::default() }
}

/// Refuses what is no directory.
pub fn must_be_a_directory(dir: &Path) -> Result<()> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::at(dir, "not a directory; give the directory of a store")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::at(dir, "no such directory; `siltstone put` or `siltstone load` creates a store"))
        }
        Err(error) => Err(Failure::at(dir, error)),
    }
}

/// The existing keyspace `name`, or an error that lists those there are.
pub fn keyspace(db: &Db, name: &str) -> Result<Keyspace> {
    db.get_keyspace(name).ok_or_else(|| no_keyspace(db, name, ""))
}

/// The failure of a name that no keyspace has; `advice` is what to do.
pub fn no_keyspace(db: &Db, name: &str, advice: &str) -> Failure {
    let known = db.keyspaces();
    if known.is_empty() {
        return Failure::Failed(format!("{} holds no keyspaces yet{advice}", db.path().display()));
    }
    let shown: Vec<&str> = known.iter().take(10).map(String::as_str).collect();
    let more = if known.len() > 10 {
        format!(", … ({} in all)", sizes::count(known.len() as u64))
    } else {
        String::new()
    };
    Failure::Failed(format!(
        "there is no keyspace {name:?} in {}; there are: {}{more}{advice}",
        db.path().display(),
        shown.join(", ")
    ))
}

/// A key, prefix or value given on the command line, with its escapes replaced.
pub fn argument(what: &str, text: &std::ffi::OsStr) -> Result<Vec<u8>> {
    text::unescape(text.as_encoded_bytes()).map_err(|e| Failure::Usage(format!("{what}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_read_with_their_sizes() {
        for (text, bytes) in [
            ("lsm-trie", 8 << 20),
            ("lsm-trie:1M", 1 << 20),
            ("silt:500K", 500 << 10),
            ("lean:1M+dictionary", 1 << 20),
        ] {
            let preset = parse_preset(text).unwrap();
            assert_eq!((preset.name.as_str(), preset.design.levels[0].table_bytes), (text, bytes));
        }
        assert_eq!(parse_preset("lsm-trie:8MiB").unwrap().name, "lsm-trie");
        for (bad, why) in
            [("lsm", ""), ("none", "there is no"), ("lsm-trie:", "64M"), ("lsm-trie:1", "out of range")]
        {
            let parsed = parse_preset(bad).map(|preset| preset.name);
            assert!(why.is_empty() || parsed.as_ref().is_err_and(|error| error.contains(why)), "{parsed:?}");
        }
    }
}
