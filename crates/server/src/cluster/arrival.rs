//! The side of a hand-over that takes slots.
//!
//! ```text
//! CLUSTER HANDOVER BEGIN <token> <from> <slots>    the slots are emptied here, and open to the next
//! CLUSTER HANDOVER ITEMS <token> <kind> <key> <value> …    put, delete or delete-prefix: items as stored
//! CLUSTER HANDOVER SETTLE <token>                  replies when it is on the device, and on replicas
//! CLUSTER HANDOVER TAKE <token> <epoch>            the same, and the slots are this node's: OK <its epoch>
//! CLUSTER HANDOVER CANCEL <token> <slots>          replies TAKEN <its epoch> or CANCELLED: so it stays
//! ```
//!
//! Items come as the source holds them: a large collection in as many messages as it takes, and what clients
//! change meanwhile in the order in which they did. No client reads them before the slots are this node's.
//! Counters follow from the heads. The epochs of both sides go along, so that what either has told of itself
//! before is older than what it is now. A hand-over of which nothing is heard for a minute is over, or whose
//! slots another node has by now.

use super::{Cluster, NodeId, Topology, gossip, slot, sweep};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::{Arrived, Database, ItemChange, Layout, Store};
use crate::resp::Request;
use crate::server::Server;
use crate::slots::read_range;
use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After so long without a word a hand-over is over.
const SILENCE: Duration = Duration::from_secs(60);
/// How long replicas may take to have what has arrived.
const PATIENCE: Duration = Duration::from_secs(2);
/// Tokens that are remembered of hand-overs that have ended well.
const MOST_TAKEN: usize = 64;

/// A hand-over that has begun.
struct Arrival {
    from: String,
    slots: BTreeSet<u16>,
    heard: Instant,
    /// Where its items go.
    database: Arc<Database>,
}

/// What is coming, by token.
#[derive(Default)]
pub struct Open {
    coming: BTreeMap<String, Arrival>,
    taken: VecDeque<String>,
}

impl Open {
    /// Whether anything is coming from a node.
    pub fn has_from(&self, node: &str) -> bool {
        self.coming.values().any(|arrival| arrival.from == node)
    }

    /// Whether a slot is coming.
    pub fn has(&self, slot: u16) -> bool {
        self.coming.values().any(|arrival| arrival.slots.contains(&slot))
    }

    /// The hand-over `token`, where this node can still take it with all that has arrived.
    fn find(&mut self, server: &Server, token: &str) -> Outcome<&mut Arrival> {
        let Entry::Occupied(mut found) = self.coming.entry(token.to_owned()) else {
            return Err(Failure::coded("ERR There is no such hand-over, or it has ended"));
        };
        let is_open = |open: Arc<Database>| Arc::ptr_eq(&open, &found.get().database);
        let is_there = server.store().database(0).is_some_and(is_open);
        if server.replication.is_replica() || !is_there {
            found.remove();
            return Err(Failure::coded("ERR This node has become a replica, or was emptied, meanwhile"));
        }
        found.get_mut().heard = Instant::now();
        Ok(found.into_mut())
    }
}

/// Slots that are coming to this node.
#[derive(Default)]
pub struct Arrivals(Mutex<Open>);

impl Arrivals {
    /// What is coming. While this is held nothing arrives, begins or ends.
    pub fn lock(&self) -> MutexGuard<'_, Open> {
        let mut open = self.0.lock();
        open.coming.retain(|_, arrival| arrival.heard.elapsed() < SILENCE);
        open
    }

    /// Ends those whose slots are no longer their giver's: they could not be taken.
    pub(super) fn drop_outdated(&self, topology: &Topology) {
        let mut open = self.lock();
        open.coming.retain(|_, arrival| check_giver(topology, &arrival.from, &arrival.slots).is_ok());
    }

    /// The slots that are coming.
    pub fn slots(&self) -> BTreeSet<u16> {
        self.lock().coming.values().flat_map(|arrival| arrival.slots.iter().copied()).collect()
    }
}

/// Reads slots as they are written between nodes, `0-99,120`.
pub(super) fn read_slots(text: &str) -> Outcome<BTreeSet<u16>> {
    let ranges: Option<Vec<RangeInclusive<u16>>> = text.split(',').map(read_range).collect();
    Ok(ranges.ok_or(SYNTAX)?.into_iter().flatten().collect())
}

/// Carries out `CLUSTER HANDOVER`, and returns the reply.
///
/// # Errors
/// Where it makes no sense, or can't be done; the source goes on as the owner then.
pub fn answer(server: &Server, cluster: &Cluster, request: &Request) -> Outcome<Cow<'static, str>> {
    let word = |place| String::from_utf8_lossy(request.get(place)).into_owned();
    let token = word(3);
    match (request.get(2).to_ascii_uppercase().as_slice(), request.len()) {
        (b"BEGIN", 6) => {
            begin(server, cluster, &token, &word(4), read_slots(&word(5))?).map(|()| "OK".into())
        }
        (b"ITEMS", 4..) => items(server, cluster, &token, request).map(|()| "OK".into()),
        (b"SETTLE", 4) => {
            cluster.arrivals.lock().find(server, &token)?;
            settle(server).map(|()| "OK".into())
        }
        (b"TAKE", 5) => {
            let epoch = word(4).parse().map_err(|_| SYNTAX)?;
            take(server, cluster, &token, epoch).map(|epoch| format!("OK {epoch}").into())
        }
        (b"CANCEL", 5) => cancel(server, cluster, &token, &read_slots(&word(4))?),
        _ => Err(SYNTAX),
    }
}

fn begin(server: &Server, cluster: &Cluster, token: &str, from: &str, slots: BTreeSet<u16>) -> Outcome {
    if server.replication.is_replica() {
        return Err(Failure::coded("ERR A replica takes no slots"));
    }
    cluster.read(|topology| check_giver(topology, from, &slots))?;
    if cluster.hands_over(|going| *going.to == *from) {
        // Each would hold its keys locked while it waits for the other.
        return Err(Failure::coded("ERR This node hands slots over to that one just now"));
    }
    let check_free = |open: &Open| match slots.iter().any(|slot| open.has(*slot)) {
        true => Err(Failure::coded("ERR One of the slots is arriving already")),
        false => Ok(()),
    };
    check_free(&cluster.arrivals.lock())?;
    sweep::clear(server, cluster, &slots)?;
    let database = server.store().by_slot()?;
    let mut open = cluster.arrivals.lock();
    check_free(&open)?;
    let (mut first, mut last) = (u16::MAX, 0);
    slots.iter().for_each(|slot| (first, last) = (first.min(*slot), last.max(*slot)));
    let arrival = Arrival { from: from.to_owned(), slots, heard: Instant::now(), database };
    open.coming.insert(token.to_owned(), arrival);
    crate::say(format_args!("slots between {first} and {last} are arriving from {from}"));
    Ok(())
}

/// Checks that `slots` are `from`'s to give.
fn check_giver(topology: &Topology, from: &str, slots: &BTreeSet<u16>) -> Outcome {
    if !topology.nodes.contains_key(from) {
        return Err(Failure::new(format!("Unknown node {from}")));
    }
    let is_free = |slot: &&u16| {
        topology.owner(**slot).is_some_and(|owner| **owner == *from)
            && !topology.importing.contains_key(slot)
            && !topology.doubtful.contains_key(slot)
    };
    match slots.iter().find(|slot| !is_free(slot)) {
        Some(slot) => Err(Failure::new(format!("Slot {slot} is not {from}'s to give, as this node sees it"))),
        None => Ok(()),
    }
}

fn items(server: &Server, cluster: &Cluster, token: &str, request: &Request) -> Outcome {
    let mut open = cluster.arrivals.lock();
    let Arrival { slots, database, .. } = open.find(server, token)?;
    let words: Vec<&[u8]> = request.from(4).collect();
    let (triples, rest) = words.as_chunks::<3>();
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let mut changes = Vec::with_capacity(triples.len());
    for [kind, key, value] in triples {
        let found = Layout::slot_of(key).filter(|slot| slots.contains(slot));
        let is_whole = Layout::BySlot.key_of(key).is_some_and(|(name, _)| found == Some(slot(name)));
        let change = match *kind {
            b"put" => ItemChange::Put { key, value },
            b"delete" => ItemChange::Delete { key },
            b"delete-prefix" => ItemChange::DeleteGroup { key },
            _ => return Err(SYNTAX),
        };
        if !is_whole {
            return Err(Failure::coded("ERR An item is of no slot that is arriving"));
        }
        changes.push(change);
    }
    server.store().take_items(database, &changes)
}

/// Returns once all that was written is on the device, and on the replicas that are there.
fn settle(server: &Server) -> Outcome {
    let store = server.store();
    store.db.sync()?;
    let position = store.db.log_position();
    let followers = server.replication.followers();
    let wanted = followers.iter().filter(|follower| follower.is_online()).count();
    if server.replication.wait(position, wanted, Some(PATIENCE), server) < wanted {
        return Err(Failure::coded("ERR A replica of this node is too far behind"));
    }
    Ok(())
}

/// Takes the slots, from a node of which `epoch` is the cluster's; the one that this node has from then on.
fn take(server: &Server, cluster: &Cluster, token: &str, epoch: u64) -> Outcome<u64> {
    settle(server)?;
    let mut open = cluster.arrivals.lock();
    let arrival = open.find(server, token)?;
    let (slots, from) = (arrival.slots.clone(), arrival.from.clone());
    let taken = cluster.change(|topology| {
        // Another node may have taken the giver's place since it began.
        check_giver(topology, &from, &slots)?;
        let me = NodeId::clone(&topology.me);
        topology.hand_over(slots.iter().copied(), &me, epoch);
        Outcome::Ok(topology.my_epoch())
    });
    open.coming.remove(token);
    let epoch = taken??;
    open.taken.push_back(token.to_owned());
    if open.taken.len() > MOST_TAKEN {
        open.taken.pop_front();
    }
    drop(open);
    if cluster.read(|topology| topology.version.is_none()) {
        // Those who might take the source's place hear of it before it answers for the slots no more. The
        // source itself hears of it by the reply.
        tokio::runtime::Handle::current().block_on(gossip::tell_all(server, cluster, &from));
    }
    crate::say(format_args!("took {} slots", slots.len()));
    Ok(epoch)
}

/// Ends the hand-over of `slots`, and says whether they have been taken. Whoever asks may have forgotten the
/// token.
fn cancel(
    server: &Server,
    cluster: &Cluster,
    token: &str,
    slots: &BTreeSet<u16>,
) -> Outcome<Cow<'static, str>> {
    let mut open = cluster.arrivals.lock();
    let before = open.coming.len();
    open.coming.retain(|other, arrival| *other != *token && arrival.slots.is_disjoint(slots));
    let has_ended = open.coming.len() < before;
    let owns = |slot: &u16| cluster.read(|topology| topology.owner(*slot) == Some(&topology.me));
    if open.taken.iter().any(|taken| *taken == *token) || slots.iter().all(owns) {
        return Ok(format!("TAKEN {}", cluster.read(Topology::my_epoch)).into());
    }
    drop(open);
    if has_ended && !server.replication.is_replica() {
        // What has arrived is the giver's still. What stays here of it goes later, as leftovers do.
        let _ = sweep::clear(server, cluster, slots);
    }
    Ok("CANCELLED".into())
}

/// Deletes some of the keys of `slots` behind the item `after`: how many keys, and the item to go on behind.
///
/// # Errors
/// Those of reading and writing.
pub(super) fn clear_page(
    store: &Store,
    slots: RangeInclusive<u16>,
    after: Option<&[u8]>,
) -> Outcome<(u64, Option<Vec<u8>>)> {
    let page: Arrived = store.page_of_slots(slots, after)?;
    let Some((last, _)) = page.items.last() else { return Ok((0, None)) };
    let count = store.drop_items(&page.items)?;
    Ok((count, (!page.is_last).then(|| last.clone())))
}
