//! `siltstone-sim`: see docs/reliability.md.

use clap::{Parser, Subcommand, ValueEnum};
use siltstone_sim::hunt::{Hunt, attempt, hunt, quiet_panics, report};
use siltstone_sim::stress::{self, Stress};
use siltstone_sim::world::{Settings, Trouble, World};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs whole stores on a simulated disk that crashes, fails, fills up and rots, beside a model.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Other>,
    /// Seed of the first world; each world has the next.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Worlds at most.
    #[arg(long, default_value_t = u64::MAX)]
    worlds: u64,
    /// Seconds at most; without this and --worlds, a minute.
    #[arg(long)]
    seconds: Option<u64>,
    /// Operations per world.
    #[arg(long, default_value_t = 150)]
    operations: usize,
    /// In how many more ways each crash is looked at, on copies, and in a quarter as many each damage.
    #[arg(long, default_value_t = 12)]
    depth: u64,
    /// What may go wrong; all of it by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Option<Vec<Trouble>>,
    /// Without anything that goes wrong.
    #[arg(long, conflicts_with = "faults")]
    no_faults: bool,
    /// Worlds at once.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Only these events of the one world; what a failure prints.
    #[arg(long, value_delimiter = ',')]
    keep: Option<Vec<usize>>,
    /// Stops at the first failure and does not make it smaller.
    #[arg(long)]
    stop: bool,
    /// Prints the events of the first world and does not run it.
    #[arg(long)]
    print: bool,
    /// Prints one JSON object on standard output, and failures on standard error.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Threads on a real file system, in a child that is killed at any moment.
    Stress {
        /// A directory for the store and for what is expected of it; goes on with what is there.
        #[arg(long)]
        dir: PathBuf,
        /// What options, designs and operations follow from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Threads that write.
        #[arg(long, default_value_t = 4)]
        threads: u64,
        /// Seconds in all.
        #[arg(long, default_value_t = 300)]
        seconds: u64,
        /// Only compares what lies in the directory.
        #[arg(long)]
        check: bool,
        /// Prints one JSON object on standard output.
        #[arg(long)]
        json: bool,
        /// The child itself.
        #[arg(long, hide = true)]
        child: bool,
        #[arg(long, hide = true)]
        milliseconds: Option<u64>,
    },
    /// Threads under a scheduler that a seed decides, on the simulated disk; needs a build of its own.
    Threads {
        /// Seed of the first world; each has the next.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Schedules at most.
        #[arg(long, default_value_t = 1000)]
        schedules: u64,
        /// Seconds at most.
        #[arg(long)]
        seconds: Option<u64>,
        /// Prints the counts as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// How worlds with threads are run.
#[cfg(siltstone_shuttle)]
fn threads(seed: u64, schedules: u64, seconds: Option<u64>, json: bool) -> ExitCode {
    use siltstone_sim::threads::{Hunt, hunt};
    let time = seconds.map(Duration::from_secs);
    let found = hunt(&Hunt { seed, schedules, time });
    let tally = found.tally;
    let counted = [
        ("worlds", found.worlds),
        ("schedules", tally.runs),
        ("steps", found.steps),
        ("writes", tally.writes),
        ("reads", tally.reads),
        ("jobs", tally.jobs),
        ("crashes", tally.crashes),
        ("closes", tally.closes),
    ];
    if json {
        let counts = counted.map(|(name, count)| (name.to_owned(), count.into()));
        let mut report = serde_json::Map::from_iter(counts);
        report.insert("failed_seed".into(), found.failure.as_ref().map(|(seed, _)| *seed).into());
        println!("{}", serde_json::Value::Object(report));
    } else {
        println!("{}", counted.map(|(name, count)| format!("{count} {name}")).join(", "));
    }
    let Some((seed, what)) = found.failure else { return ExitCode::SUCCESS };
    eprintln!("FAILED threads, seed {seed}: {what}");
    eprintln!("repeat it with: siltstone-sim threads --seed {seed} --schedules 1");
    ExitCode::FAILURE
}

#[cfg(not(siltstone_shuttle))]
fn threads(_: u64, _: u64, _: Option<u64>, _: bool) -> ExitCode {
    eprintln!(
        "this program was built for the system's threads; for those of a scheduler, build it with\n\
         RUSTFLAGS=\"--cfg siltstone_shuttle\" CARGO_TARGET_DIR=target/shuttle cargo run --release -p siltstone-sim -- threads"
    );
    ExitCode::from(2)
}

fn print_report(report: &stress::Report, json: bool) {
    match json {
        true => println!("{}", report.to_json()),
        false => println!("{report:?}"),
    }
}

impl Other {
    fn run(self) -> ExitCode {
        let Self::Stress { dir, seed, threads, seconds, check, json, child, milliseconds } = self else {
            return self.run_threads();
        };
        let time = milliseconds.map_or(Duration::from_secs(seconds), Duration::from_millis);
        let stress = Stress { dir, seed, threads, time };
        let outcome = match child {
            true => stress::child(&stress).map_err(|error| error.to_string()),
            false if check => stress::check(&stress).map(|report| print_report(&report, json)),
            false => stress::run(&stress).map(|report| print_report(&report, json)),
        };
        if let Err(error) = &outcome {
            eprintln!("FAILED stress, seed {seed}: {error}");
        }
        if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn run_threads(self) -> ExitCode {
        match self {
            Self::Threads { seed, schedules, seconds, json } => self::threads(seed, schedules, seconds, json),
            Self::Stress { .. } => ExitCode::FAILURE,
        }
    }
}

impl Arguments {
    fn settings(&self) -> Settings {
        let all = || Trouble::value_variants().to_vec();
        let troubles = if self.no_faults { Vec::new() } else { self.faults.clone().unwrap_or_else(all) };
        Settings { operations: self.operations, depth: self.depth, troubles }
    }

    /// One world, with some of its events.
    fn again(&self, numbers: &[usize]) -> ExitCode {
        let settings = self.settings();
        let world = World::new(self.seed, &settings).keeping(numbers);
        match attempt(&world) {
            Ok(tally) => {
                println!("nothing is wrong: {tally:?}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("{}", report(&world, &failure, &world, &settings));
                ExitCode::FAILURE
            }
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Some(other) = arguments.command.take() {
        return other.run();
    }
    if arguments.print {
        let mut out = std::io::stdout().lock();
        for (number, event) in World::new(arguments.seed, &arguments.settings()).events {
            if writeln!(out, "{number}: {}", event.describe()).is_err() {
                // Whoever read it has seen enough.
                break;
            }
        }
        return ExitCode::SUCCESS;
    }
    quiet_panics();
    if let Some(numbers) = &arguments.keep {
        return arguments.again(numbers);
    }
    let bounded = arguments.worlds < u64::MAX || arguments.seconds.is_some();
    let seconds = if bounded { arguments.seconds } else { Some(60) };
    let found = hunt(
        &Hunt {
            seed: arguments.seed,
            worlds: arguments.worlds,
            time: seconds.map(Duration::from_secs),
            threads: arguments.threads,
            stops: arguments.stop,
            settings: arguments.settings(),
        },
        &|failure| match arguments.json {
            true => eprintln!("FAILED {failure}"),
            false => println!("FAILED {failure}"),
        },
    );
    match arguments.json {
        true => println!("{}", found.to_json()),
        false => println!("{}", found.summary()),
    }
    if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
