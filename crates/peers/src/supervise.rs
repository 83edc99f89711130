//! Starts runs one after another, each in a process of its own, and keeps their records.
//!
//! ```text
//! RESULTS/parameters.json            what is the same for all runs: others belong to another directory
//! RESULTS/ENGINE/WORKLOAD.json       the record of a run; one that is there is not run again
//! RESULTS/summary.json tables.txt    made of the records each time, and charts
//! DIR/ENGINE/filled.json store/      the store while its workloads run, and what the fill put into it
//! ```

use crate::confine::Group;
use crate::engine::Engine;
use crate::failure::{Failure, Result};
use crate::record::{Outcome, Record};
use crate::run::{Answer, Parameters, Request};
use crate::workload::Workload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use siltstone_lab::kit::sizes;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The argument that makes this program the process of a run.
pub const CHILD_ARGUMENT: &str = "--as-process-of-a-run";

/// Set when the user wants to stop.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What to run, and where.
#[derive(Debug)]
pub struct Campaign {
    /// Directory of the results.
    pub results: PathBuf,
    /// Directory of the stores.
    pub dir: PathBuf,
    /// What is the same for all runs.
    pub parameters: Parameters,
    /// The engines.
    pub engines: Vec<Engine>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Whether runs that failed are tried again.
    pub retry_failed: bool,
    /// Whether stores stay when their workloads are done.
    pub keep_stores: bool,
}

#[derive(Serialize, Deserialize)]
struct Filled {
    parameters: Parameters,
    existing: u64,
}

macro_rules! note {
    ($($message:tt)*) => {{ let _ = writeln!(std::io::stderr(), $($message)*); }};
}

impl Campaign {
    /// Runs everything that has no record yet. Engines whose library is missing come back as skipped records,
    /// which are not kept, so that they run once it is there.
    ///
    /// # Errors
    /// Results of other parameters, files that cannot be written, or the user wants to stop. A run that
    /// fails is a record, not an error.
    pub fn run(&self) -> Result<Vec<Record>> {
        self.keep_parameters()?;
        let mut skipped = Vec::new();
        let runs = self.engines.len() * self.workloads.len();
        let mut number = 0;
        for engine in &self.engines {
            let mut ran = false;
            for workload in &self.workloads {
                number += 1;
                let name = format!("[{number}/{runs}] {} {}", engine.name, workload.name());
                if self.kept(engine, *workload)?.is_some() {
                    note!("{name}: kept from before");
                    continue;
                }
                let library = match engine.version() {
                    Ok(library) => library,
                    Err(why) => {
                        note!("{name}: skipped, {why}");
                        skipped.push(self.without_figures(engine, *workload, Outcome::Skipped, &why, ""));
                        continue;
                    }
                };
                if *workload == Workload::Bulk && !engine.builds() {
                    continue;
                }
                let existing = match workload {
                    Workload::Bulk | Workload::Fill => 0,
                    _ => match self.filled(engine, &library)? {
                        Ok(existing) => existing,
                        Err(why) => {
                            note!("{name}: skipped, {why}");
                            let record =
                                self.without_figures(engine, *workload, Outcome::Skipped, &why, &library);
                            skipped.push(record);
                            continue;
                        }
                    },
                };
                note!("{name}");
                ran = true;
                self.run_one(engine, *workload, existing, &library)?;
            }
            if ran && !self.keep_stores {
                self.remove_store(engine)?;
            }
        }
        Ok(skipped)
    }

    /// The records that are there, in the order of engines and workloads.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        for engine in &self.engines {
            for workload in &self.workloads {
                records.extend(self.read(engine, *workload)?);
            }
        }
        Ok(records)
    }

    fn record_path(&self, engine: &Engine, workload: Workload) -> PathBuf {
        self.results.join(&engine.name).join(format!("{}.json", workload.name()))
    }

    fn read(&self, engine: &Engine, workload: Workload) -> Result<Option<Record>> {
        let path = self.record_path(engine, workload);
        match std::fs::read(&path) {
            Ok(json) => Ok(Some(serde_json::from_slice(&json).map_err(|e| Failure::at(&path, e))?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::at(&path, error)),
        }
    }

    /// The record that makes a run unnecessary.
    fn kept(&self, engine: &Engine, workload: Workload) -> Result<Option<Record>> {
        let record = self.read(engine, workload)?;
        Ok(record.filter(|record| !(self.retry_failed && record.outcome == Outcome::Failed)))
    }

    fn keep_parameters(&self) -> Result<()> {
        std::fs::create_dir_all(&self.results).map_err(|e| Failure::at(&self.results, e))?;
        let path = self.results.join("parameters.json");
        if let Ok(json) = std::fs::read(&path) {
            let before: Parameters = serde_json::from_slice(&json).map_err(|e| Failure::at(&path, e))?;
            if before != self.parameters {
                return Err(Failure::new(format_args!(
                    "{} holds results of other parameters, which cannot be compared with these; choose another \
                     directory\n  there: {before:?}\n  now:   {:?}",
                    self.results.display(),
                    self.parameters
                )));
            }
        }
        write_whole(&path, &self.parameters)
    }

    /// Items in the engine's store, which is filled if it is not there; the inner error says why it cannot
    /// be.
    fn filled(&self, engine: &Engine, library: &str) -> Result<std::result::Result<u64, String>> {
        let marker = self.dir.join(&engine.name).join("filled.json");
        let read = || serde_json::from_slice::<Filled>(&std::fs::read(&marker).ok()?).ok();
        if let Some(filled) = read().filter(|filled| filled.parameters == self.parameters.of_fill()) {
            return Ok(Ok(filled.existing));
        }
        if let Some(record) = self.kept(engine, Workload::Fill)?.filter(|record| record.figures.is_none()) {
            return Ok(Err(format!("its fill failed: {}", record.why.unwrap_or_default())));
        }
        note!("{}: filling a store", engine.name);
        self.run_one(engine, Workload::Fill, 0, library)?;
        Ok(read().map(|filled| filled.existing).ok_or_else(|| "its fill failed".to_owned()))
    }

    fn remove_store(&self, engine: &Engine) -> Result<()> {
        let dir = self.dir.join(&engine.name);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::at(&dir, error)),
            _ => Ok(()),
        }
    }

    fn without_figures(
        &self,
        engine: &Engine,
        workload: Workload,
        outcome: Outcome,
        why: &str,
        library: &str,
    ) -> Record {
        Record {
            engine: engine.name.clone(),
            workload: workload.name(),
            outcome,
            why: Some(why.to_owned()),
            library: library.to_owned(),
            settings: engine.settings(self.parameters.memory(workload)),
            capped: false,
            figures: None,
        }
    }

    fn run_one(&self, engine: &Engine, workload: Workload, existing: u64, library: &str) -> Result<()> {
        let own = self.dir.join(&engine.name);
        let store = own.join(if workload == Workload::Bulk { "built" } else { "store" });
        if workload == Workload::Fill {
            self.remove_store(engine)?;
        }
        if workload == Workload::Bulk {
            // What an interrupted build has left.
            let _ = std::fs::remove_dir_all(&store);
        }
        if workload.makes() {
            std::fs::create_dir_all(&store).map_err(|e| Failure::at(&store, e))?;
        }
        let cap_bytes = self.parameters.memory(workload).cap_bytes;
        let group = Group::new(&format!("siltstone-peers-{}", std::process::id()), cap_bytes);
        let capped = group.membership().is_capped();
        if !capped {
            note!("    no control group can be made here: memory is not capped");
        }
        let request = Request {
            engine: engine.name.clone(),
            workload,
            dir: store.clone(),
            parameters: self.parameters.clone(),
            existing,
            membership: group.membership().clone(),
        };
        let record = match self.answer(&request, &own.join("answer.json"), &group)? {
            Ok(Answer { outcome, figures }) => {
                let why = match outcome {
                    Outcome::OutOfTime => Some(format!(
                        "ended by its budget of {} after {} items",
                        sizes::seconds(self.parameters.budget_seconds),
                        sizes::count(figures.by_operation.values().map(|calls| calls.operations).sum())
                    )),
                    _ => None,
                };
                if workload == Workload::Fill {
                    let filled = Filled { parameters: self.parameters.of_fill(), existing: figures.items };
                    write_whole(&own.join("filled.json"), &filled)?;
                }
                note!("    {}", crate::report::tables::in_a_line(&figures));
                Record {
                    outcome,
                    why,
                    capped,
                    figures: Some(figures),
                    ..self.without_figures(engine, workload, outcome, "", library)
                }
            }
            Err(why) => {
                note!("    failed: {why}");
                Record { capped, ..self.without_figures(engine, workload, Outcome::Failed, &why, library) }
            }
        };
        if workload == Workload::Bulk {
            std::fs::remove_dir_all(&store).map_err(|e| Failure::at(&store, e))?;
        }
        if record.is_wrong() {
            note!("    WRONG ANSWERS: the store did not return what was written");
        }
        // A store that was filled again has its record already.
        if self.kept(engine, workload)?.is_none() {
            let path = self.record_path(engine, workload);
            std::fs::create_dir_all(self.results.join(&engine.name))?;
            write_whole(&path, &record)?;
        }
        Ok(())
    }

    /// Lets a process serve the request; the inner error says why it did not.
    fn answer(
        &self,
        request: &Request,
        answer: &Path,
        group: &Group,
    ) -> Result<std::result::Result<Answer, String>> {
        // Clients and settling have a budget each; opening and closing get what is over.
        let limit = Duration::from_secs_f64(
            2.0 * self.parameters.budget_seconds + self.parameters.warm_up_seconds + 120.0,
        );
        let cap_bytes = self.parameters.memory(request.workload).cap_bytes;
        in_a_process(CHILD_ARGUMENT, request, answer, (group, cap_bytes), limit)
    }
}

/// Lets this program, started with `argument`, serve `request` in a process of its own within `group`, whose
/// cap is so many bytes; the inner error says why it did not.
///
/// # Errors
/// The process cannot be started, or the user wants to stop.
pub fn in_a_process<A: DeserializeOwned>(
    argument: &str,
    request: &impl Serialize,
    answer: &Path,
    (group, cap_bytes): (&Group, u64),
    limit: Duration,
) -> Result<std::result::Result<A, String>> {
    for file in [answer, &failure_path(answer)] {
        let _ = std::fs::remove_file(file);
    }
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).arg(argument).arg(answer).stdin(Stdio::piped()).spawn()?;
    let json = serde_json::to_vec(request)?;
    // A child that is gone already says so by its status.
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(&json));
    let status = wait(&mut child, limit)?;
    Ok(match status {
        None => Err(format!("killed: it had not ended after {}", sizes::seconds(limit.as_secs_f64()))),
        Some(status) if status.success() => std::fs::read(answer)
            .map_err(|e| e.to_string())
            .and_then(|json| serde_json::from_slice(&json).map_err(|e| e.to_string())),
        Some(_) if group.kills() > 0 => {
            Err(format!("killed for memory at the cap of {}", sizes::bytes(cap_bytes)))
        }
        Some(status) => Err(ended(status, answer)),
    })
}

/// What a child that failed has said, or how it ended.
fn ended(status: ExitStatus, answer: &Path) -> String {
    std::fs::read_to_string(failure_path(answer)).unwrap_or_else(|_| status.to_string())
}

/// Where a child says why it failed.
pub fn failure_path(answer: &Path) -> PathBuf {
    answer.with_extension("failure")
}

/// What a process is asked to do, from standard input.
///
/// # Errors
/// It is not what was expected.
pub fn request<Q: DeserializeOwned>() -> Result<Q> {
    // Nobody would stop a run whose supervisor is gone.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(Failure::new)?;
    let mut json = Vec::new();
    std::io::stdin().read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Writes down why a process has failed, if it has.
///
/// # Errors
/// What it failed for.
pub fn say_failure(answer: &Path, served: Result<()>) -> Result<()> {
    if let Err(failure) = &served {
        let path = failure_path(answer);
        std::fs::write(&path, failure.to_string()).map_err(|e| Failure::at(&path, e))?;
    }
    served
}

/// Those of `all` that `names` name, of which each is one or the beginning of some and `*`; all without
/// names.
///
/// # Errors
/// A name that stands for none.
pub fn chosen(all: Vec<String>, names: &[String]) -> Result<Vec<String>> {
    let is_meant = |one: &str, name: &str| match name.strip_suffix('*') {
        Some(start) => one.starts_with(start),
        None => one == name,
    };
    for name in names {
        if !all.iter().any(|one| is_meant(one, name)) {
            return Err(Failure::new(format_args!("no {name}; there are {}", all.join(", "))));
        }
    }
    let is_chosen = |one: &String| names.is_empty() || names.iter().any(|name| is_meant(one, name));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The engines that `names` name, as [`chosen`] takes them; all without names.
///
/// # Errors
/// A name that no engine has.
pub fn engines(names: &[String]) -> Result<Vec<Engine>> {
    let all = Engine::all();
    let chosen = chosen(all.iter().map(|engine| engine.name.clone()).collect(), names)?;
    Ok(all.into_iter().filter(|engine| chosen.contains(&engine.name)).collect())
}

/// Waits for a child and kills it after `limit` (`None`) or when the user wants to stop (an error).
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if INTERRUPTED.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(Some(status)) };
        }
        let interrupt = INTERRUPTED.load(Ordering::Relaxed);
        if interrupt || started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return if interrupt { Err(interrupted()) } else { Ok(None) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn interrupted() -> Failure {
    Failure::new("interrupted; the same command goes on from here")
}

/// Writes JSON so that a reader sees all of it or nothing.
pub fn write_whole(path: &Path, value: &impl Serialize) -> Result<()> {
    let part = path.with_extension("part");
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    std::fs::write(&part, json).map_err(|e| Failure::at(&part, e))?;
    std::fs::rename(&part, path).map_err(|e| Failure::at(path, e))
}
