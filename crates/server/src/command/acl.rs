//! ACL: users, their passwords, and what they may do.

use super::arguments::{integer, is};
use super::permissions::{CATEGORIES, Denied, Permissions};
use super::spec::{Spec, flags::*, lookup, table};
use super::{Context, help, text, unknown_subcommand};
use crate::failure::{Failure, Outcome};
use crate::resp::{Output, Request};
use crate::server::Session;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

pub const TABLE: &[Spec] = &[Spec::new("acl", -2, ALONE | INSTANT | ADMIN, acl).about(
    "server",
    "6.0.0",
    "Tells of users and changes them.",
)];

/// Who a client is.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name.
    pub name: String,
    is_on: bool,
    needs_no_password: bool,
    /// SHA-256 of passwords, in hexadecimal.
    passwords: Vec<String>,
    /// What it may do,
    root: Permissions,
    /// and what else, each by itself: Redis' selectors.
    selectors: Vec<Permissions>,
    /// Set once another has taken its place, for connections that still have this one.
    is_superseded: OnceLock<()>,
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl User {
    fn new(name: &str) -> Self {
        let (passwords, root, selectors, is_superseded) = Default::default();
        let (is_on, needs_no_password) = (false, false);
        Self { name: name.into(), is_on, needs_no_password, passwords, root, selectors, is_superseded }
    }

    /// The user of those who have not said who they are.
    fn default_user() -> Self {
        let mut user = Self::new("default");
        for rule in ["on", "nopass", "~*", "&*", "+@all"] {
            // These are rules.
            let _ = user.apply(rule.as_bytes());
        }
        user
    }

    fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        let word = text(rule);
        let lower = word.to_lowercase();
        match (lower.as_str(), rule.split_first()) {
            ("on", _) => self.is_on = true,
            ("off", _) => self.is_on = false,
            ("nopass", _) => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            ("resetpass", _) => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            ("sanitize-payload" | "skip-sanitize-payload", _) => {}
            ("clearselectors", _) => self.selectors.clear(),
            ("reset", _) => *self = Self::new(&self.name.clone()),
            (_, Some((sign @ (b'>' | b'<' | b'#' | b'!'), password))) => {
                self.apply_password(*sign, password)?
            }
            (_, Some((b'(', rest))) => {
                let inner = rest.strip_suffix(b")").ok_or("Syntax error")?;
                let mut selector = Permissions::default();
                let rules = inner.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty());
                for rule in rules {
                    selector.apply(rule)?;
                }
                self.selectors.push(selector);
            }
            _ => self.root.apply(rule)?,
        }
        Ok(())
    }

    /// Adds a password or removes one, in clear or as its hash.
    fn apply_password(&mut self, sign: u8, password: &[u8]) -> Result<(), &'static str> {
        let is_hash = |hash: &[u8]| {
            hash.len() == 64 && hash.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
        };
        let hash = match sign {
            b'>' | b'<' => sha256(password),
            _ if is_hash(password) => text(password),
            _ => {
                return Err("The password hash must be exactly 64 characters and contain only lowercase \
                            hexadecimal characters");
            }
        };
        if matches!(sign, b'<' | b'!') {
            let before = self.passwords.len();
            self.passwords.retain(|other| *other != hash);
            if self.passwords.len() == before {
                return Err("The password you are trying to remove from the user does not exist");
            }
            return Ok(());
        }
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
        Ok(())
    }

    /// Checks that the user may run a command.
    ///
    /// # Errors
    /// What it may not do.
    pub fn check(&self, spec: &Spec, request: &Request) -> Result<(), Denied> {
        let Err(mut denied) = self.root.check(spec, request) else { return Ok(()) };
        for selector in &self.selectors {
            match selector.check(spec, request) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags.push("sanitize-payload");
        flags
    }

    fn line(&self) -> String {
        let mut words = vec!["user".to_owned(), self.name.clone()];
        words.extend(self.flags().iter().map(|flag| (*flag).to_owned()));
        words.extend(self.passwords.iter().map(|hash| format!("#{hash}")));
        words.push(self.root.line());
        words.extend(self.selectors.iter().map(|selector| format!("({})", selector.line())));
        words.join(" ")
    }
}

/// A command that was refused, or a login.
#[derive(Clone, Debug)]
struct LogEntry {
    reason: String,
    object: String,
    user: String,
    client: String,
    at_ms: u64,
    number: i64,
}

/// Marks a user whose place another has taken.
fn supersede(user: Option<Arc<User>>) {
    // It is marked once.
    let _ = user.map(|user| user.is_superseded.set(()));
}

/// All users.
#[derive(Debug)]
pub struct Acl {
    users: Mutex<BTreeMap<String, Arc<User>>>,
    log: Mutex<Vec<LogEntry>>,
}

impl Default for Acl {
    fn default() -> Self {
        let users = BTreeMap::from([("default".to_owned(), Arc::new(User::default_user()))]);
        Self { users: Mutex::new(users), log: Mutex::default() }
    }
}

impl Acl {
    /// The user `name`.
    pub fn user(&self, name: &str) -> Option<Arc<User>> {
        self.users.lock().get(name).cloned()
    }

    /// The user of those who have not said who they are.
    pub fn default_user(&self) -> Arc<User> {
        self.user("default").unwrap_or_else(|| Arc::new(User::default_user()))
    }

    /// Whether clients need not say who they are.
    pub fn default_needs_no_password(&self) -> bool {
        let user = self.default_user();
        user.needs_no_password && user.is_on
    }

    /// Lets clients in with this password only, or, where it is empty, without one.
    pub fn require(&self, password: &str) {
        let mut user = User::clone(&self.default_user());
        let rules = if password.is_empty() {
            vec!["nopass".into()]
        } else {
            vec!["resetpass".into(), format!(">{password}")]
        };
        for rule in rules {
            // These are rules.
            let _ = user.apply(rule.as_bytes());
        }
        supersede(self.users.lock().insert("default".into(), Arc::new(user)));
    }

    /// What has become of a user that a connection has, where it was changed since.
    pub fn changed(&self, user: &User) -> Option<Arc<User>> {
        user.is_superseded.get().and_then(|()| self.user(&user.name))
    }

    /// The user of that name and password.
    pub fn log_in(&self, name: &str, password: &[u8]) -> Option<Arc<User>> {
        let user = self.user(name)?;
        let is_right = user.needs_no_password || user.passwords.contains(&sha256(password));
        (user.is_on && is_right).then_some(user)
    }

    /// Categories of a command.
    pub fn categories_of(spec: &Spec) -> Vec<&'static str> {
        spec.categories()
    }

    /// Makes or changes a user by the words of a configuration file's `user` line.
    ///
    /// # Errors
    /// The rule that is none, and why.
    pub fn set_user(&self, name: &str, rules: &[&[u8]]) -> Result<Arc<User>, String> {
        let mut users = self.users.lock();
        let mut user = users.get(name).map_or_else(|| User::new(name), |user| User::clone(user));
        for rule in merged(rules)? {
            user.apply(&rule)
                .map_err(|why| format!("Error in ACL SETUSER modifier '{}': {why}", text(&rule)))?;
        }
        let user = Arc::new(user);
        supersede(users.insert(name.into(), Arc::clone(&user)));
        Ok(user)
    }

    /// Notes that something was refused.
    pub fn note(&self, session: &Session, reason: &str, object: &str, user: &str) {
        const MOST: usize = 128;
        let mut log = self.log.lock();
        let number = log.first().map_or(0, |entry| entry.number + 1);
        log.insert(
            0,
            LogEntry {
                reason: reason.into(),
                object: object.into(),
                user: user.into(),
                client: session.client.describe(),
                at_ms: crate::now_ms(),
                number,
            },
        );
        log.truncate(MOST);
    }
}

fn acl(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let acl = &context.server.acl;
    match (request.get(1).to_ascii_uppercase().as_slice(), request.len()) {
        (b"WHOAMI", 2) => out.text(&context.session.user.name),
        (b"USERS", 2) => {
            let names: Vec<String> = acl.users.lock().keys().cloned().collect();
            out.array(names.len());
            names.iter().for_each(|name| out.text(name));
        }
        (b"LIST", 2) => {
            let lines: Vec<String> = acl.users.lock().values().map(|user| user.line()).collect();
            out.array(lines.len());
            lines.iter().for_each(|line| out.text(line));
        }
        (b"GETUSER", 3) => match acl.user(&text(request.get(2))) {
            Some(user) => show_user(&user, out),
            None => out.null(),
        },
        (b"SETUSER", 3..) => set_user(context, request, out)?,
        (b"DELUSER", 3..) => delete_users(context, request, out)?,
        (b"CAT", 2) => {
            out.array(CATEGORIES.len() - 1);
            CATEGORIES.iter().filter(|name| **name != "all").for_each(|name| out.text(name));
        }
        (b"CAT", 3) => {
            let category = text(request.get(2)).to_lowercase();
            if !CATEGORIES.contains(&category.as_str()) {
                return Err(Failure::new(format!("Unknown category '{category}'")));
            }
            let names: Vec<_> =
                table().filter(|spec| spec.categories().contains(&category.as_str())).collect();
            out.array(names.len());
            names.iter().for_each(|spec| out.text(spec.name));
        }
        (b"GENPASS", 2 | 3) => generate_password(request, out)?,
        (b"LOG", 2 | 3) => show_log(acl, request, out)?,
        (b"DRYRUN", 4..) => dry_run(acl, request, out)?,
        (b"LOAD" | b"SAVE", 2) => {
            return Err(Failure::coded("ERR This server is not configured to use an ACL file."));
        }
        (b"HELP", 2) => help(out, "ACL", &["LIST", "    Show users details in config file format."]),
        _ => return Err(unknown_subcommand(request)),
    }
    Ok(())
}

fn set_user(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let name = text(request.get(2));
    if name.contains([' ', '\0']) {
        return Err(Failure::coded("ERR Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = request.from(3).collect();
    context.server.acl.set_user(&name, &rules).map_err(Failure::new)?;
    out.ok();
    Ok(())
}

fn delete_users(context: &mut Context, request: &Request, out: &mut Output) -> Outcome {
    let mut count = 0;
    for name in request.from(2).map(text) {
        if name == "default" {
            return Err(Failure::coded("ERR The 'default' user cannot be removed"));
        }
        if context.server.acl.users.lock().remove(&name).is_some() {
            count += 1;
            context.server.clients.kill_user(&name);
            context.session.closes |= context.session.user.name == name;
        }
    }
    out.count(count);
    Ok(())
}

fn generate_password(request: &Request, out: &mut Output) -> Outcome {
    let bits = if request.len() == 3 { integer(request.get(2))? } else { 256 };
    if !(1..=4096).contains(&bits) {
        return Err(Failure::coded(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up \
             to 4096",
        ));
    }
    let digits = usize::try_from(bits).unwrap_or(0).div_ceil(4);
    let digit = |_| char::from_digit(rand::random_range(0..16), 16).unwrap_or('0');
    out.text(&(0..digits).map(digit).collect::<String>());
    Ok(())
}

fn show_user(user: &User, out: &mut Output) {
    out.map(6);
    out.text("flags");
    out.set(user.flags().len());
    user.flags().iter().for_each(|flag| out.text(flag));
    out.text("passwords");
    out.array(user.passwords.len());
    user.passwords.iter().for_each(|hash| out.text(hash));
    show_permissions(&user.root, out);
    out.text("selectors");
    out.array(user.selectors.len());
    for selector in &user.selectors {
        out.map(3);
        show_permissions(selector, out);
    }
}

fn show_permissions(permissions: &Permissions, out: &mut Output) {
    for (name, value) in [
        ("commands", permissions.commands_text()),
        ("keys", permissions.keys_text()),
        ("channels", permissions.channels_text()),
    ] {
        out.text(name);
        out.text(&value);
    }
}

/// Returns rules in which the words of a selector, from its bracket to the other, are one.
fn merged(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, String> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        let (first, word) = match open.take() {
            Some((first, begun)) => (first, [begun.as_slice(), b" ", rule].concat()),
            None => (*rule, rule.to_vec()),
        };
        if word.starts_with(b"(") && !word.ends_with(b")") {
            open = Some((first, word));
        } else {
            merged.push(word);
        }
    }
    match open {
        Some((first, _)) => {
            Err(format!("Unmatched parenthesis in acl selector starting at '{}'.", text(first)))
        }
        None => Ok(merged),
    }
}

fn show_log(acl: &Acl, request: &Request, out: &mut Output) -> Outcome {
    let mut log = acl.log.lock();
    if is(request.get(2), "RESET") {
        log.clear();
        out.ok();
        return Ok(());
    }
    let most = if request.len() == 3 { usize::try_from(integer(request.get(2))?).unwrap_or(0) } else { 10 };
    out.array(log.len().min(most));
    for entry in log.iter().take(most) {
        out.map(10);
        let age = crate::now_ms().saturating_sub(entry.at_ms) / 1000;
        out.text("count");
        out.integer(1);
        let context = "toplevel".to_owned();
        for (name, value) in [
            ("reason", &entry.reason),
            ("context", &context),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            out.text(name);
            out.text(value);
        }
        out.text("age-seconds");
        out.text(&age.to_string());
        out.text("client-info");
        out.text(&entry.client);
        out.text("entry-id");
        out.integer(entry.number);
        for name in ["timestamp-created", "timestamp-last-updated"] {
            out.text(name);
            out.integer(i64::try_from(entry.at_ms).unwrap_or(0));
        }
    }
    Ok(())
}

fn dry_run(acl: &Acl, request: &Request, out: &mut Output) -> Outcome {
    let name = text(request.get(2));
    let user = acl.user(&name).ok_or_else(|| Failure::new(format!("User '{name}' not found")))?;
    let inner = Request::of(&request.from(3).collect::<Vec<_>>());
    let (_, spec) = lookup(inner.get(0))
        .ok_or_else(|| Failure::new(format!("Command '{}' not found", text(inner.get(0)))))?;
    if !spec.takes(&inner) {
        return Err(super::wrong_arity(spec.name));
    }
    match user.check(spec, &inner) {
        Ok(()) => out.ok(),
        Err(Denied::Command) => {
            out.text(&format!("User {name} has no permissions to run the '{}' command", spec.name));
        }
        Err(Denied::Key(place)) => {
            let key = text(inner.get(place));
            out.text(&format!("User {name} has no permissions to access the '{key}' key"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &[&[u8]]) -> Result<Arc<User>, String> {
        Acl::default().set_user("ada", rules)
    }

    fn may(user: &User, words: &[&[u8]]) -> Result<(), Denied> {
        let request = Request::of(words);
        let (_, spec) = lookup(request.get(0)).unwrap();
        user.check(spec, &request)
    }

    #[test]
    fn a_selector_allows_what_the_root_does_not() {
        let rules: [&[u8]; 6] = [b"on", b"+get", b"~cache:*", b"&news", b"(+set", b"%W~app*)"];
        let user = user(&rules).unwrap();
        assert_eq!(may(&user, &[b"GET", b"cache:1"]), Ok(()));
        assert_eq!(may(&user, &[b"SET", b"app1", b"x"]), Ok(()));
        // Neither part lends the other its commands or keys.
        assert_eq!(may(&user, &[b"SET", b"cache:1", b"x"]), Err(Denied::Key(1)));
        assert_eq!(may(&user, &[b"GET", b"app1"]), Err(Denied::Key(1)));
        assert_eq!(may(&user, &[b"DEL", b"app1"]), Err(Denied::Command));
        assert_eq!(
            user.line(),
            "user ada on sanitize-payload ~cache:* resetchannels &news -@all +get (%W~app* resetchannels -@all +set)"
        );
    }

    #[test]
    fn connections_notice_that_their_user_was_changed() {
        let acl = Acl::default();
        let of_connection = acl.set_user("ada", &[b"on", b"+get", b"~*"]).unwrap();
        assert!(acl.changed(&of_connection).is_none());
        acl.set_user("ada", &[b"-get"]).unwrap();
        assert_eq!(may(&acl.changed(&of_connection).unwrap(), &[b"GET", b"key"]), Err(Denied::Command));
        acl.set_user("ada", &[b"+get"]).unwrap();
        assert_eq!(may(&acl.changed(&of_connection).unwrap(), &[b"GET", b"key"]), Ok(()));
    }

    #[test]
    fn selectors_that_make_no_sense_change_nothing() {
        let why = user(&[b"on", b"(+get", b"~*"]).unwrap_err();
        assert_eq!(why, "Unmatched parenthesis in acl selector starting at '(+get'.");
        let why = user(&[b"(+get >secret)"]).unwrap_err();
        assert_eq!(why, "Error in ACL SETUSER modifier '(+get >secret)': Syntax error");
        for (rules, said) in
            [(["~*", "~a"], "'allkeys'"), (["&*", "&a"], "'allchannels'"), (["%~a", "~b"], "Syntax")]
        {
            let why = user(&rules.map(str::as_bytes)).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        let acl = Acl::default();
        acl.set_user("ada", &[b"(+get ~*)"]).unwrap();
        let cleared = acl.set_user("ada", &[b"clearselectors"]).unwrap();
        assert_eq!(may(&cleared, &[b"GET", b"key"]), Err(Denied::Command));
    }
}
