//! The laboratory's own program: the same as `siltstone bench silt` and its kin, and `siltstone model
//! figures`.

use clap::Parser;
use siltstone_lab::papers::{self, Task};
use siltstone_lab::program::failure::exit_code;
use std::process::ExitCode;

/// Siltstone's laboratory: papers' evaluations and figures redone, with the papers' numbers beside ours.
#[derive(Parser)]
#[command(
    name = "siltstone-lab",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 success, 1 a failed operation, 2 a usage error.\n\n\
        Examples:\n  \
        siltstone-lab silt --quick                      SILT's tables and figures, on small stores\n  \
        siltstone-lab slimdb --only filters             one part of SlimDB's\n  \
        siltstone-lab compression --quick               what compression saves and costs\n  \
        siltstone-lab expiry --quick                    how soon the space of expired items is back\n  \
        siltstone-lab upkeep --quick                    compaction, backups, repair, the change feed\n  \
        siltstone-lab reopen --quick                    opening a store after a close and after kill -9\n  \
        siltstone-lab figures --only fast16-table1      what models say, beside what the paper printed\n  \
        siltstone-lab predictions --out points.jsonl    stores of every preset beside what was predicted of them\n  \
        siltstone-lab regret --out regret.jsonl          what advised designs cost beside presets\n  \
        siltstone-lab phases --out phases.jsonl          a store that redesigns itself\n  \
        siltstone-lab redesigns                         from every preset to every other under load\n  \
        siltstone-lab short-memory --out short.jsonl    what lookups read where memory is short"
)]
struct Program {
    #[command(subcommand)]
    task: Task,
}

fn main() -> ExitCode {
    exit_code(papers::run(&Program::parse().task))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn every_task_shows_examples() {
        let mut tasks = 0;
        for task in Program::command().get_subcommands_mut() {
            let help = task.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{} has no examples", task.get_name());
            tasks += 1;
        }
        assert_eq!(tasks, 14);
    }
}
