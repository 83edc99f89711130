//! The settings there are.

/// What a setting's value is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Switch,
    /// An integer between two others.
    Number(i64, i64),
    /// Permissions of a file, in octal.
    Permissions,
    /// Bytes, with a unit perhaps.
    Size,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Words with blanks between them.
    Words,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value unless it is set.
    pub default: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Whether it can be set while the server runs.
    pub can_change: bool,
}

const fn new(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting { name, default, kind, can_change: true }
}

const fn fixed(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting { name, default, kind, can_change: false }
}

const ANY: Kind = Kind::Number(i64::MIN, i64::MAX);
const COUNT: Kind = Kind::Number(0, i64::MAX);

/// Names that settings had before, and names of today.
pub const ALIASES: [(&str, &str); 8] = [
    ("slaveof", "replicaof"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
];

/// All settings. Those below the line mean nothing here, and are kept for clients that set and read them.
pub const SETTINGS: &[Setting] = &[
    fixed("bind", "127.0.0.1 -::1", Kind::Words),
    fixed("port", "6379", Kind::Number(0, 65_535)),
    fixed("tls-port", "0", Kind::Number(0, 65_535)),
    fixed("tls-cert-file", "", Kind::Text),
    fixed("tls-key-file", "", Kind::Text),
    fixed("tls-ca-cert-file", "", Kind::Text),
    fixed("tls-auth-clients", "no", Kind::Choice(&["yes", "no", "optional"])),
    fixed("unixsocket", "", Kind::Text),
    fixed("unixsocketperm", "0", Kind::Permissions),
    fixed("metrics-port", "0", Kind::Number(0, 65_535)),
    fixed("dir", "siltstone-data", Kind::Text),
    fixed("databases", "16", Kind::Number(1, 10_000)),
    fixed("store-memory", "268435456", Kind::Size),
    fixed("store-threads", "1", Kind::Number(1, 64)),
    fixed("replicaof", "", Kind::Words),
    new("masterauth", "", Kind::Text),
    new("masteruser", "", Kind::Text),
    fixed("repl-backlog-size", "67108864", Kind::Size),
    new("repl-timeout", "60", COUNT),
    new("min-replicas-to-write", "0", COUNT),
    new("min-replicas-max-lag", "10", COUNT),
    fixed("cluster-enabled", "no", Kind::Switch),
    fixed("cluster-node-timeout", "15000", Kind::Number(50, i32::MAX as i64)),
    fixed("cluster-require-full-coverage", "yes", Kind::Switch),
    fixed("cluster-announce-ip", "", Kind::Text),
    fixed("preset", "siltstone", Kind::Text),
    fixed("auto-design", "off", Kind::Choice(&["off", "propose", "apply"])),
    fixed("io-threads", "2", Kind::Number(1, 128)),
    fixed("blocking-threads", "32", Kind::Number(1, 512)),
    new("timeout", "0", Kind::Number(0, i32::MAX as i64)),
    new("tcp-keepalive", "300", COUNT),
    fixed("tcp-backlog", "511", COUNT),
    new("maxclients", "10000", Kind::Number(1, 1_000_000)),
    new("requirepass", "", Kind::Text),
    new("appendfsync", "everysec", Kind::Choice(&["always", "everysec", "no"])),
    new("proto-max-bulk-len", "536870912", Kind::Size),
    new("client-query-buffer-limit", "1073741824", Kind::Size),
    new(
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Kind::Words,
    ),
    new("slowlog-log-slower-than", "10000", Kind::Number(-1, i64::MAX)),
    new("slowlog-max-len", "128", COUNT),
    new("latency-monitor-threshold", "0", COUNT),
    new("hash-max-listpack-entries", "128", COUNT),
    new("hash-max-listpack-value", "64", COUNT),
    new("set-max-intset-entries", "512", COUNT),
    new("enable-debug-command", "no", Kind::Choice(&["yes", "no", "local"])),
    fixed("daemonize", "no", Kind::Switch),
    fixed("logfile", "", Kind::Text),
    new("loglevel", "notice", Kind::Choice(&["debug", "verbose", "notice", "warning"])),
    // ---------------------------------------------------------------------------------------------------
    new("maxmemory", "0", Kind::Size),
    new(
        "maxmemory-policy",
        "noeviction",
        Kind::Choice(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
    ),
    new("maxmemory-samples", "5", COUNT),
    new("maxmemory-clients", "0", Kind::Text),
    new("maxmemory-eviction-tenacity", "10", COUNT),
    new("save", "", Kind::Words),
    new("appendonly", "no", Kind::Switch),
    new("no-appendfsync-on-rewrite", "no", Kind::Switch),
    new("auto-aof-rewrite-percentage", "100", COUNT),
    new("auto-aof-rewrite-min-size", "67108864", Kind::Size),
    new("aof-use-rdb-preamble", "yes", Kind::Switch),
    new("aof-load-truncated", "yes", Kind::Switch),
    fixed("appendfilename", "appendonly.aof", Kind::Text),
    fixed("appenddirname", "appendonlydir", Kind::Text),
    new("dbfilename", "dump.rdb", Kind::Text),
    new("rdbcompression", "yes", Kind::Switch),
    fixed("rdbchecksum", "yes", Kind::Switch),
    new("stop-writes-on-bgsave-error", "yes", Kind::Switch),
    new("list-max-listpack-size", "-2", ANY),
    new("list-compress-depth", "0", COUNT),
    new("set-max-listpack-entries", "128", COUNT),
    new("set-max-listpack-value", "64", COUNT),
    new("zset-max-listpack-entries", "128", COUNT),
    new("zset-max-listpack-value", "64", COUNT),
    new("hll-sparse-max-bytes", "3000", Kind::Size),
    new("stream-node-max-bytes", "4096", Kind::Size),
    new("stream-node-max-entries", "100", COUNT),
    new("activerehashing", "yes", Kind::Switch),
    new("active-expire-effort", "1", Kind::Number(1, 10)),
    new("activedefrag", "no", Kind::Switch),
    new("lazyfree-lazy-eviction", "no", Kind::Switch),
    new("lazyfree-lazy-expire", "no", Kind::Switch),
    new("lazyfree-lazy-server-del", "no", Kind::Switch),
    new("lazyfree-lazy-user-del", "no", Kind::Switch),
    new("lazyfree-lazy-user-flush", "no", Kind::Switch),
    new("replica-lazy-flush", "no", Kind::Switch),
    new("notify-keyspace-events", "", Kind::Text),
    new("hz", "10", Kind::Number(1, 500)),
    new("dynamic-hz", "yes", Kind::Switch),
    new("lfu-log-factor", "10", COUNT),
    new("lfu-decay-time", "1", COUNT),
    new("lua-time-limit", "5000", COUNT),
    new("busy-reply-threshold", "5000", COUNT),
    new("latency-tracking", "yes", Kind::Switch),
    new("protected-mode", "no", Kind::Switch),
    new("repl-diskless-sync", "yes", Kind::Switch),
    new("repl-diskless-sync-delay", "5", COUNT),
    new("replica-serve-stale-data", "yes", Kind::Switch),
    new("replica-read-only", "yes", Kind::Switch),
    new("tracking-table-max-keys", "1000000", COUNT),
    new("acllog-max-len", "128", COUNT),
    new("shutdown-timeout", "10", COUNT),
    new("oom-score-adj", "no", Kind::Text),
    new("close-on-oom", "no", Kind::Switch),
    new("sanitize-dump-payload", "no", Kind::Choice(&["no", "yes", "clients"])),
    new("close-files-after-invoked-by-eval", "no", Kind::Switch),
    fixed("supervised", "no", Kind::Text),
    fixed("pidfile", "", Kind::Text),
    fixed("always-show-logo", "no", Kind::Switch),
];

/// The setting `name`, in any case, also by an old name.
pub fn find(name: &str) -> Option<&'static Setting> {
    let name = name.to_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, name)| *name);
    let name = alias.unwrap_or(&name);
    SETTINGS.iter().find(|setting| setting.name == name)
}

impl Setting {
    /// Checks a value, and returns it in its usual spelling.
    ///
    /// # Errors
    /// Why it is none.
    pub fn check(&self, value: &str) -> Result<String, String> {
        match self.kind {
            Kind::Switch => {
                let value = value.to_lowercase();
                match value.as_str() {
                    "yes" | "no" => Ok(value),
                    _ => Err("argument must be 'yes' or 'no'".into()),
                }
            }
            Kind::Number(least, most) => match value.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                Ok(_) => Err(format!("argument must be between {least} and {most} inclusive")),
                Err(_) => Err("argument couldn't be parsed into an integer".into()),
            },
            Kind::Permissions => match u32::from_str_radix(value, 8) {
                Ok(mode) if mode <= 0o777 => Ok(format!("{mode:o}")),
                Ok(_) | Err(_) => Err("argument must be permissions in octal, from 0 to 777".into()),
            },
            Kind::Size => match super::size(value) {
                Some(bytes) => Ok(bytes.to_string()),
                None => Err("argument must be a memory value".into()),
            },
            Kind::Choice(words) => {
                let value = value.to_lowercase();
                if words.contains(&value.as_str()) {
                    return Ok(value);
                }
                Err(format!("argument(s) must be one of the following: {}", words.join(", ")))
            }
            Kind::Text => Ok(value.to_owned()),
            Kind::Words if self.name == "client-output-buffer-limit" => Ok(merge_limits(self.default, value)),
            Kind::Words => Ok(value.to_owned()),
        }
    }
}

/// Takes the classes of clients that `value` names from there, the others from `base`.
fn merge_limits(base: &str, value: &str) -> String {
    let classes = |text: &str| -> Vec<(String, Vec<String>)> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let size = |word: &String| super::size(word).map_or_else(|| word.clone(), |bytes| bytes.to_string());
        words
            .chunks(4)
            .filter_map(|chunk| Some((chunk.first()?.clone(), chunk.iter().skip(1).map(size).collect())))
            .collect()
    };
    let named = classes(value);
    let line = |(class, limits): (String, Vec<String>)| {
        let other = named.iter().find(|(name, _)| *name == class || (class == "slave" && name == "replica"));
        format!("{class} {}", other.map_or(limits, |(_, limits)| limits.clone()).join(" "))
    };
    classes(base).into_iter().map(line).collect::<Vec<_>>().join(" ")
}
