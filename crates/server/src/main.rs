//! The program `siltstone-server`.

use clap::{Parser, Subcommand};
use siltstone_server::config::{Config, SETTINGS};
use siltstone_server::server::{self, Server};
use siltstone_server::{Failure, import, say};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Serves Redis clients from a Siltstone store.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "Any setting can be given as --NAME VALUE after the others, as in \
    `siltstone-server DIR -- --maxclients 100`; `--list-settings` names them. A configuration file has a setting a line."
)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// What to do other than to serve.
    #[command(subcommand)]
    task: Option<Task>,
    /// Directory of the data; it is made where there is none.
    dir: Option<PathBuf>,
    /// Port of plain TCP; 0 takes any.
    #[arg(long)]
    port: Option<u16>,
    /// Configuration file: a setting and its value a line, as `redis.conf`.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Memory of the store, such as 512mb.
    #[arg(long)]
    memory: Option<String>,
    /// Port of metrics and of the page for browsers.
    #[arg(long)]
    metrics_port: Option<u16>,
    /// Names all settings with their defaults, and ends.
    #[arg(long)]
    list_settings: bool,
    /// Settings, as --NAME VALUE.
    #[arg(last = true)]
    settings: Vec<String>,
}

/// What the program does other than to serve.
#[derive(Debug, Subcommand)]
enum Task {
    /// Makes the store in a directory one of a cluster's node: puts its keys by slot.
    Convert {
        /// Directory of the data; no server may run there.
        dir: PathBuf,
    },
    /// Fills a store from a database file of Redis, or from a server that runs.
    Import {
        /// The file (RDB), or redis://[[user]:password@]host[:port][/database].
        from: String,
        /// Directory of the data; no server may run there. It is made where there is none.
        dir: PathBuf,
        /// Settings, as --NAME VALUE; `--cluster-enabled yes` makes a store of a cluster's node.
        #[arg(last = true)]
        settings: Vec<String>,
    },
}

fn carry_out(task: &Task) -> Result<(), Failure> {
    match task {
        Task::Convert { dir } => {
            let items = server::convert(dir)?;
            say(format_args!("{}: {items} items lie by slot now", dir.display()));
        }
        Task::Import { from, dir, settings } => {
            let config = Config::default();
            set(&config, "dir", Some(dir.display().to_string())).map_err(Failure::new)?;
            set_pairs(&config, settings).map_err(Failure::new)?;
            std::fs::create_dir_all(dir).map_err(Failure::new)?;
            let report = match from.contains("://") {
                true => import::from_server(from, &config)?,
                false => import::from_file(&PathBuf::from(from), &config)?,
            };
            say(report);
        }
    }
    Ok(())
}

fn configure(arguments: &Arguments) -> Result<Config, String> {
    let mut config = Config::default();
    if let Some(path) = &arguments.config {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        config.read(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let set = |name: &str, value: Option<String>| set(&config, name, value);
    set("dir", arguments.dir.as_ref().map(|dir| dir.display().to_string()))?;
    set("port", arguments.port.map(|port| port.to_string()))?;
    set("store-memory", arguments.memory.clone())?;
    set("metrics-port", arguments.metrics_port.map(|port| port.to_string()))?;
    set_pairs(&config, &arguments.settings)?;
    Ok(config)
}

fn set(config: &Config, name: &str, value: Option<String>) -> Result<(), String> {
    match value {
        Some(value) => config.set_at_start(name, &value).map_err(|why| format!("{name} {value}: {why}")),
        None => Ok(()),
    }
}

/// Takes settings that are given as --NAME VALUE.
fn set_pairs(config: &Config, settings: &[String]) -> Result<(), String> {
    let (pairs, rest) = settings.as_chunks::<2>();
    for [name, value] in pairs {
        let name =
            name.strip_prefix("--").ok_or_else(|| format!("{name}: settings are given as --NAME VALUE"))?;
        set(config, name, Some(value.clone()))?;
    }
    match rest {
        [] => Ok(()),
        [name, ..] => Err(format!("{name}: its value is missing")),
    }
}

async fn run(config: Config, file: Option<PathBuf>) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let opened = tokio::task::spawn_blocking(move || Server::open(config, file));
    let listening = server::start(opened.await.map_err(Failure::new)??).await?;
    for (what, addresses) in [
        ("clients", &listening.addresses),
        ("clients with TLS", &listening.tls_addresses),
        ("metrics", &listening.metrics_addresses),
    ] {
        for address in addresses {
            say(format_args!("ready for {what} at {address}"));
        }
    }
    let server = Arc::clone(&listening.server);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        say("stopping");
        server.stop();
    });
    listening.wait().await
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(task) = &arguments.task {
        return end(carry_out(task));
    }
    if arguments.list_settings {
        for setting in SETTINGS {
            println!("{} {}", setting.name, setting.default);
        }
        return ExitCode::SUCCESS;
    }
    let config = match configure(&arguments) {
        Ok(config) => config,
        Err(why) => {
            say(why);
            return ExitCode::from(2);
        }
    };
    let count = |name: &str| usize::try_from(config.number(name)).unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(count("io-threads"))
        .max_blocking_threads(count("blocking-threads"))
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(config, arguments.config)),
        Err(error) => Err(Failure::new(error)),
    };
    end(result)
}

/// Says why the program failed, if it did.
fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            say(text.strip_prefix("ERR ").unwrap_or(&text));
            ExitCode::FAILURE
        }
    }
}
