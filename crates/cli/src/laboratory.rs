//! The hand-over of papers' evaluations and figures to the laboratory, which is part of this program too.

use crate::failure::Result;
use crate::output::note;
use siltstone_lab::papers::{self, Task};

/// Runs a task of the laboratory, and says on standard error which program is made for it.
pub fn hand_over(task: &Task) -> Result<()> {
    note!("handed over to the laboratory: `siltstone-lab {}` does the same", task.name());
    papers::run(task)
}
