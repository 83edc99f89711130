//! What a user may do: rules on commands, on keys and on channels, as ACL SETUSER takes them.
//!
//! There are no channels here; rules on them are kept and shown, for clients that set and compare them.

use super::arguments::is;
use super::spec::{Access, Spec, flags::NO_AUTH, lookup};
use super::text;
use crate::glob;
use crate::resp::Request;

/// Redis' categories; some have no command here, and rules on them decide nothing.
pub(super) const CATEGORIES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "all",
];

/// Why a command is refused; the later one is the nearer to what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The user may not run it.
    Command,
    /// The user may not use the key at this place of the request.
    Key(usize),
}

/// A rule on commands; the last that concerns one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allows: bool,
    /// A category with its `@`, or a command.
    of: String,
}

/// A rule on keys.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRule {
    pattern: Vec<u8>,
    reads: bool,
    writes: bool,
}

impl KeyRule {
    fn is_all(&self) -> bool {
        self.pattern == b"*" && self.reads && self.writes
    }
}

/// What may be done: nothing, to begin with.
#[derive(Clone, Debug, Default)]
pub(super) struct Permissions {
    rules: Vec<Rule>,
    keys: Vec<KeyRule>,
    /// Patterns of channels.
    channels: Vec<String>,
}

impl Permissions {
    /// Adds what one rule says.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        match (text(rule).to_lowercase().as_str(), rule.split_first()) {
            ("allkeys", _) => self.add_keys(b"*", true, true)?,
            ("resetkeys", _) => self.keys.clear(),
            ("allcommands", _) => self.add_rule(true, "@all"),
            ("nocommands", _) => self.add_rule(false, "@all"),
            ("allchannels" | "&*", _) => self.channels = vec!["*".into()],
            ("resetchannels", _) => self.channels.clear(),
            (_, Some((b'~', pattern))) => self.add_keys(pattern, true, true)?,
            (_, Some((b'%', rest))) => {
                let split = rest.iter().position(|byte| *byte == b'~').ok_or("Syntax error")?;
                let (kinds, pattern) = rest.split_at(split);
                if kinds.is_empty() || !kinds.iter().all(|kind| b"RrWw".contains(kind)) {
                    return Err("Syntax error");
                }
                let has = |kind: u8| kinds.iter().any(|other| other.eq_ignore_ascii_case(&kind));
                self.add_keys(pattern.get(1..).unwrap_or_default(), has(b'R'), has(b'W'))?;
            }
            (_, Some((b'&', _))) if self.has_all_channels() => {
                return Err(
                    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                            does not have any effect. Try 'resetchannels' to start with an empty list of \
                            channels",
                );
            }
            (_, Some((b'&', pattern))) => {
                let pattern = text(pattern);
                if !self.channels.contains(&pattern) {
                    self.channels.push(pattern);
                }
            }
            (_, Some((sign @ (b'+' | b'-'), of))) => {
                let of = text(of).to_lowercase();
                let is_known = match of.strip_prefix('@') {
                    Some(category) => CATEGORIES.contains(&category),
                    None => lookup(of.split('|').next().unwrap_or_default().as_bytes()).is_some(),
                };
                if !is_known {
                    return Err("Unknown command or category name in ACL");
                }
                self.add_rule(*sign == b'+', &of);
            }
            _ => return Err("Syntax error"),
        }
        Ok(())
    }

    fn add_rule(&mut self, allows: bool, of: &str) {
        if of == "@all" {
            self.rules.clear();
        }
        self.rules.retain(|rule| rule.of != of);
        self.rules.push(Rule { allows, of: of.into() });
    }

    fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), &'static str> {
        let rule = KeyRule { pattern: pattern.to_vec(), reads, writes };
        if rule.is_all() {
            self.keys = vec![rule];
        } else if self.keys.iter().any(KeyRule::is_all) {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
                        have any effect. Try 'resetkeys' to start with an empty list of patterns",
            );
        } else if let Some(known) = self.keys.iter_mut().find(|known| known.pattern == rule.pattern) {
            (known.reads, known.writes) = (known.reads || reads, known.writes || writes);
        } else {
            self.keys.push(rule);
        }
        Ok(())
    }

    fn has_all_channels(&self) -> bool {
        matches!(self.channels.as_slice(), [all] if all == "*")
    }

    fn may_run(&self, spec: &Spec, subcommand: &[u8]) -> bool {
        let concerns = |rule: &&Rule| match rule.of.strip_prefix('@') {
            Some("all") => true,
            Some(category) => spec.categories().contains(&category),
            None => match rule.of.split_once('|') {
                Some((name, sub)) => name == spec.name && is(subcommand, sub),
                None => rule.of == spec.name,
            },
        };
        self.rules.iter().rev().find(concerns).is_some_and(|rule| rule.allows)
    }

    fn may_use(&self, key: &[u8], access: Access) -> bool {
        let allows = |rule: &KeyRule| match access {
            Access::Read => rule.reads,
            Access::Write => rule.writes,
        };
        self.keys.iter().any(|rule| allows(rule) && glob::matches(&rule.pattern, key))
    }

    /// Checks that they let a command through.
    pub fn check(&self, spec: &Spec, request: &Request) -> Result<(), Denied> {
        // The usual user may do anything.
        let may_all = matches!(self.rules.as_slice(), [Rule { allows: true, of }] if of == "@all")
            && self.keys.iter().any(KeyRule::is_all);
        if may_all {
            return Ok(());
        }
        if !self.may_run(spec, request.get(1)) && !spec.is(NO_AUTH) {
            return Err(Denied::Command);
        }
        let access = if spec.writes() { Access::Write } else { Access::Read };
        let refused = spec.keys.places(request).find(|place| !self.may_use(request.get(*place), access));
        refused.map_or(Ok(()), |place| Err(Denied::Key(place)))
    }

    /// The rules on commands, as one line of them.
    pub fn commands_text(&self) -> String {
        let first = self.rules.first().is_none_or(|rule| rule.of != "@all").then(|| "-@all".to_owned());
        let sign = |rule: &Rule| if rule.allows { '+' } else { '-' };
        let rules = self.rules.iter().map(|rule| format!("{}{}", sign(rule), rule.of));
        first.into_iter().chain(rules).collect::<Vec<_>>().join(" ")
    }

    /// The same of keys.
    pub fn keys_text(&self) -> String {
        let rule = |rule: &KeyRule| {
            let kind = match (rule.reads, rule.writes) {
                (true, true) => "~",
                (true, false) => "%R~",
                _ => "%W~",
            };
            format!("{kind}{}", text(&rule.pattern))
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(" ")
    }

    /// The same of channels.
    pub fn channels_text(&self) -> String {
        self.channels.iter().map(|pattern| format!("&{pattern}")).collect::<Vec<_>>().join(" ")
    }

    /// All rules, as a configuration file has them.
    pub fn line(&self) -> String {
        let reset = if self.has_all_channels() { "" } else { "resetchannels" };
        let parts = [self.keys_text(), reset.to_owned(), self.channels_text(), self.commands_text()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
