//! Keys that are left of slots which another node has: of a hand-over that broke off, or whose source ended
//! before it had deleted what it gave.
//!
//! Nobody reads them here, since clients are sent to the other node. They go once two looks in a row have
//! found the slot to be another's, in a cluster that is up. What such a slot holds is found at once, since
//! keys lie by slot.

use super::{Cluster, SLOTS, Topology, arrival, ranges};
use crate::failure::Outcome;
use crate::server::Server;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Slots of other nodes, of which this one may hold leftovers.
fn foreign(server: &Server, cluster: &Cluster) -> BTreeSet<u16> {
    if server.replication.is_replica() || !cluster.is_up() {
        return BTreeSet::new();
    }
    cluster.read(|topology| (0..SLOTS as u16).filter(|slot| is_foreign(topology, *slot)).collect())
}

/// Deletes what is left of slots that are no longer this node's; how many keys.
///
/// # Errors
/// Those of reading and writing.
pub(super) fn clear(server: &Server, cluster: &Cluster, slots: &BTreeSet<u16>) -> Outcome<u64> {
    let mut cleared = 0;
    let store = server.store();
    for (first, last) in ranges(slots.iter().copied()) {
        let mut after = None;
        loop {
            // Nothing begins to arrive meanwhile, and nothing is deleted of what has begun to.
            let open = cluster.arrivals.lock();
            let is_left = |slot: u16| cluster.read(|topology| is_foreign(topology, slot)) && !open.has(slot);
            if !(first..=last).all(is_left) {
                break;
            }
            let (count, next) = arrival::clear_page(&store, first..=last, after.as_deref())?;
            cleared += count;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(cleared)
}

/// Whether a slot is another node's, and not on its way here.
fn is_foreign(topology: &Topology, slot: u16) -> bool {
    topology.owner(slot).is_some_and(|owner| *owner != topology.me)
        && !topology.importing.contains_key(&slot)
        && !topology.doubtful.contains_key(&slot)
}

/// Looks for leftovers until the server stops.
pub async fn run(server: Arc<Server>, cluster: Arc<Cluster>) {
    let every = Duration::from_millis(cluster.timeout_ms().max(2_000));
    let mut before = BTreeSet::new();
    while !server.is_stopping() {
        tokio::time::sleep(every).await;
        cluster.read(|topology| cluster.arrivals.drop_outdated(topology));
        let now = foreign(&server, &cluster);
        let both: BTreeSet<u16> = now.intersection(&before).copied().collect();
        before = now;
        let (worker, known) = (Arc::clone(&server), Arc::clone(&cluster));
        match tokio::task::spawn_blocking(move || clear(&worker, &known, &both)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => crate::say(format_args!("deleted {count} keys of slots that other nodes have")),
            Ok(Err(failure)) => crate::say(format_args!("leftovers of slots: {failure}")),
            Err(error) => crate::say(format_args!("leftovers of slots: {error}")),
        }
    }
}
