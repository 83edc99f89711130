//! Redesigns in the background: which task is next while one is under way, and when it is over.
//!
//! What is left of earlier designs is found anew each time from the version (`siltstone_design::redesign`),
//! so there is no state to lose. What writers wait for comes first: the first level, and what lies above it.
//! Then comes what the design asks of any store, and last what is only left over.

use super::Scheduler;
use super::job::Redesigned;
use crate::compaction::Output;
use crate::db::catalog::keyspace::OpenKeyspace;
use crate::db::catalog::shape::{TopShape, VersionShape};
use crate::db::catalog::view::Origin;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{DesignEvent, Event};
use crate::version::designs::Chosen;
use crate::version::edit::Step;
use siltstone_design::{Design, Reason, Task, plan, redesign};
use std::sync::Arc;

/// Returns the most urgent task, with its reason where the planner does not know it.
pub(super) fn next_task(shape: &VersionShape<'_>) -> Option<(Task, Option<Reason>)> {
    let design = &*shape.version.design;
    let ordinary = |task| (task, None);
    if shape.version.redesign().is_none() {
        return plan::plan(design, shape).map(ordinary);
    }
    let left = redesign::plan(design, shape).map(|left| (left.task, Some(left.reason)));
    let is_above = |(task, _): &(Task, Option<Reason>)| task.region().1.depth() < design.depth(0);
    if left.as_ref().is_some_and(is_above) {
        return left;
    }
    let top = TopShape { of: shape, first_run: None };
    let first = plan::plan(design, &top).or_else(|| plan::plan(design, shape)).map(ordinary);
    first.or(left)
}

impl Scheduler {
    /// Gives `keyspace` another design, unless that is the one it has; false then. Where nobody asked for it,
    /// the store has chosen it.
    pub fn redesign(
        &self,
        keyspace: &Arc<OpenKeyspace>,
        design: &Design,
        chosen: Option<Chosen>,
    ) -> Result<bool> {
        // A build lays its tables by the design that it began with.
        let hold = self.hold_new(keyspace)?;
        // The copy that another schema comes with is laid out already by the design chosen for it.
        let designing = keyspace.designing.lock();
        if keyspace.is_replaced() || keyspace.open_schema_change().is_some() {
            return Err(Error::invalid(format_args!(
                "keyspace {:?} is getting another schema, or has just got one, and a design with it; wait for that \
                 (Keyspace::wait_for_schema) or cancel it (Keyspace::cancel_schema_change), and ask again",
                keyspace.name
            )));
        }
        let json = |error: serde_json::Error| Error::because(ErrorKind::InvalidInput, error).of("design");
        let written = serde_json::to_string(design).map_err(json)?;
        // The last bit of a number may get lost in the manifest, and that is no other design.
        let before = keyspace.design();
        let present = serde_json::to_string(&*before).map_err(json)?;
        let read: Design = serde_json::from_str(&written).map_err(json)?;
        if *before == read || present == written {
            return Ok(false);
        }
        let redesigned = Step::Redesigned {
            design: written,
            sequence: self.catalog.visible(),
            at_ms: self.env.now_ms(),
            first_run: self.catalog.next_id(),
            chosen,
        };
        self.catalog.commit(
            keyspace,
            Output { steps: vec![redesigned], ..Output::default() },
            Origin::Tables,
        )?;
        self.env.keep_room_for(design);
        keyspace.expect_buffers_of(design);
        drop((designing, hold));
        let saved_share = chosen.map(Chosen::saved_share);
        self.reporter
            .design(|| Event::RedesignBegan(DesignEvent::new(&keyspace.name, &before, design, saved_share)));
        self.env.signals.wake();
        Ok(true)
    }

    /// Returns one of `keyspaces` whose redesign has nothing left to do.
    pub(super) fn redesigned(&self, keyspaces: &[Arc<OpenKeyspace>]) -> Option<Redesigned> {
        keyspaces.iter().find_map(|keyspace| {
            let redesigned = Redesigned { keyspace: Arc::clone(keyspace), design: keyspace.design() };
            self.has_settled(&redesigned).then_some(redesigned)
        })
    }

    /// Whether a redesign is under way of which nothing is left, and nobody works by an earlier design.
    fn has_settled(&self, redesigned: &Redesigned) -> bool {
        let Redesigned { keyspace, design } = redesigned;
        let version = keyspace.version();
        if version.redesign().is_none() || !Arc::ptr_eq(&version.design, design) {
            return false;
        }
        let running = self.running.state.lock();
        if running.held.contains_key(&keyspace.id)
            || !running.of_other_designs(keyspace.id, design).is_empty()
        {
            return false;
        }
        drop(running);
        let shape = VersionShape::of_sizes(&version);
        redesign::leftovers(design, &shape).is_empty()
    }

    /// Notes that a redesign is over, if it still is.
    pub(super) fn settle(&self, redesigned: &Redesigned) -> Result<()> {
        // A flush may have begun by the design before.
        let flushing = self.lock_flushes();
        if !self.has_settled(redesigned) {
            return Ok(());
        }
        let Redesigned { keyspace, design } = redesigned;
        let before = keyspace.version().redesign().map(|change| Arc::clone(&change.from));
        self.catalog.settle(keyspace, design)?;
        keyspace.note_redesigned();
        drop(flushing);
        let from = before.unwrap_or_else(|| Arc::clone(design));
        let event = || Event::RedesignSettled(DesignEvent::new(&keyspace.name, &from, design, None));
        self.reporter.design(event);
        Ok(())
    }
}
