//! `siltstone serve`: hands over to the server for Redis clients, which is a program of its own.

use crate::failure::{Failure, Result};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "siltstone-server";

/// Serve Redis clients from a store
///
/// Hands over to the program siltstone-server, which has to lie beside this one or in the search path. It is
/// built apart from the rest: `cd crates/server && cargo build --release`. DIR holds the server's data and is
/// made where there is none; it is no store that other commands have made.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  siltstone serve ./data --port 6379\n  siltstone serve ./data --config server.conf\n  \
        redis-cli -p 6379 set city:7 Uppsala"
)]
pub struct Args {
    /// Directory of the server's data
    dir: PathBuf,
    /// Port to listen at
    #[arg(long)]
    port: Option<u16>,
    /// Configuration file in the form of redis.conf
    #[arg(long)]
    config: Option<PathBuf>,
    /// Settings of the server, as --NAME VALUE; `siltstone-server --list-settings` names them
    #[arg(last = true)]
    settings: Vec<String>,
}

/// The server's program: beside this one, or wherever the search path has it.
fn program(own: Option<&Path>) -> PathBuf {
    let beside = own.map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from(PROGRAM))
}

fn command(args: &Args) -> Command {
    let own = std::env::current_exe().ok();
    let mut command = Command::new(program(own.as_deref()));
    command.arg(&args.dir);
    if let Some(port) = args.port {
        command.args(["--port", &port.to_string()]);
    }
    if let Some(config) = &args.config {
        command.arg("--config").arg(config);
    }
    if !args.settings.is_empty() {
        command.arg("--").args(&args.settings);
    }
    command
}

/// Runs the command: the server takes this process's place.
pub fn run(args: &Args) -> Result<()> {
    let mut command = command(args);
    // This returns only where it fails.
    let error = command.exec();
    let why = if error.kind() == std::io::ErrorKind::NotFound {
        format!(
            "{PROGRAM} is neither beside this program nor in the search path; build it with \
             `cd crates/server && cargo build --release`, and copy target/release/{PROGRAM} beside this program"
        )
    } else {
        format!("{PROGRAM}: {error}")
    };
    Err(Failure::Failed(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_looked_for_beside_this_program_first() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("siltstone");
        assert_eq!(program(Some(&own)), Path::new(PROGRAM));
        std::fs::write(dir.path().join(PROGRAM), "").unwrap();
        assert_eq!(program(Some(&own)), dir.path().join(PROGRAM));
    }

    #[test]
    fn arguments_are_handed_over() {
        let args = Args {
            dir: "data".into(),
            port: Some(7),
            config: None,
            settings: vec!["--maxclients".into(), "9".into()],
        };
        let command = command(&args);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["data", "--port", "7", "--", "--maxclients", "9"]);
    }
}
