//! A replica in the place of its primary: because the primary has failed, or because somebody asks for it.
//!
//! The replica asks those who have slots for their votes, in an epoch that nobody has used. Each votes once
//! in an epoch, and, unless the failover was asked for, only where the primary has failed as it sees it too.
//! With a majority the replica takes the slots, in that epoch; what its primary claims is older from then on.
//! Of several replicas the one that has come farthest asks first. Source: Redis Cluster's specification.

use super::gossip::{Peer, at_once, exchange};
use super::{Cluster, NodeId, Topology, settle_role};
use crate::failure::{Failure, Outcome};
use crate::server::Server;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Whether to vote for `candidate` in `epoch`, in the place of the node that it follows; it is voted then.
pub fn grant(topology: &mut Topology, candidate: &str, epoch: u64, is_asked_for: bool) -> bool {
    let me = Arc::clone(&topology.me);
    let Some(primary) = topology.nodes.get(candidate).and_then(|node| node.primary.clone()) else {
        return false;
    };
    let has_failed = topology.nodes.get(&primary).is_some_and(|node| node.has_failed);
    let may = topology.version.is_none()
        && epoch > topology.voted
        && epoch >= topology.epoch
        && topology.has_slots(&me);
    if !may || !(has_failed || is_asked_for) || !topology.has_slots(&primary) {
        return false;
    }
    (topology.voted, topology.epoch) = (epoch, epoch);
    true
}

/// Gives this node the slots of the one that it follows.
fn take_over(topology: &mut Topology, epoch: u64) {
    let me = Arc::clone(&topology.me);
    let Some(primary) = topology.my_primary().cloned() else { return };
    let slots: Vec<u16> = topology.slots_of(&primary).collect();
    for slot in slots {
        topology.give(slot, Some(Arc::clone(&me)));
    }
    topology.epoch = topology.epoch.max(epoch);
    let myself = topology.myself();
    (myself.epoch, myself.primary) = (epoch, None);
}

/// A node whose slots another one has taken all follows that one; so does one whose primary lost them.
pub(super) fn step_aside(topology: &mut Topology) {
    let me = Arc::clone(&topology.me);
    let leader = topology.my_primary().cloned();
    let lost = leader.as_ref().unwrap_or(&me);
    if topology.has_slots(lost) {
        return;
    }
    let Some(successor) = topology.successors.get(lost).cloned() else { return };
    if successor != me && topology.has_slots(&successor) {
        topology.myself().primary = Some(successor);
    }
}

/// What this node needs to stand for election.
struct Candidacy {
    primary: NodeId,
    epoch: u64,
    voters: Vec<(String, u16)>,
}

/// Begins an election: nothing where this node does not follow one that has slots.
fn stand(topology: &mut Topology) -> Option<Candidacy> {
    let me = Arc::clone(&topology.me);
    let primary = topology.my_primary().cloned()?;
    if !topology.has_slots(&primary) {
        return None;
    }
    topology.epoch += 1;
    topology.voted = topology.epoch;
    let voters = topology.voters();
    let place = |id: &NodeId| topology.nodes.get(id).map(|node| (node.host.clone(), node.port));
    Some(Candidacy {
        epoch: topology.epoch,
        voters: voters.iter().filter(|id| **id != primary && **id != me).filter_map(place).collect(),
        primary,
    })
}

/// How many replicas of the same primary have come farther, or as far with a smaller name.
fn rank(topology: &Topology) -> u32 {
    let Some(me) = topology.nodes.get(&topology.me) else { return 0 };
    let is_before = |id: &NodeId, node: &super::Node| {
        (node.position, std::cmp::Reverse(id)) > (me.position, std::cmp::Reverse(&topology.me))
    };
    let others = topology.nodes.iter().filter(|(id, node)| {
        node.primary == me.primary && **id != topology.me && !node.has_failed && is_before(id, node)
    });
    u32::try_from(others.count()).unwrap_or(u32::MAX)
}

/// Asks for votes, and takes over with a majority; whether it did.
async fn elect(server: &Server, cluster: &Cluster, is_asked_for: bool) -> Outcome<bool> {
    let Some(candidacy) = cluster.change(stand)? else { return Ok(false) };
    let me = cluster.read(|topology| Arc::clone(&topology.me));
    let (epoch, how) = (candidacy.epoch.to_string(), if is_asked_for { "FORCE" } else { "FAILED" });
    let patience = Duration::from_millis(cluster.timeout_ms());
    let asked = candidacy.voters.iter().map(|(host, port)| {
        timeout(patience, async {
            let mut peer = Peer::connect(server, host, *port).await?;
            // Slots that the primary has handed over since this node heard of it are not its any more.
            exchange(server, cluster, &mut peer).await?;
            peer.ask(&["CLUSTER", "VOTE", &me, &epoch, how]).await
        })
    });
    let answers = at_once(asked).await;
    let votes = answers.iter().filter(|answer| matches!(answer, Ok(Ok(vote)) if vote == "1")).count();
    let has_won = cluster.change(|topology| {
        let is_still = topology.my_primary() == Some(&candidacy.primary) && topology.epoch >= candidacy.epoch;
        let has_won = is_still && topology.is_majority(votes);
        if has_won {
            take_over(topology, candidacy.epoch);
        }
        has_won
    })?;
    if has_won {
        crate::say(format_args!("took over from {} in epoch {epoch}", candidacy.primary));
        settle_role(server, cluster)?;
    }
    Ok(has_won)
}

/// Stands for election where the node that this one follows has failed.
pub(super) async fn replace_failed(server: &Server, cluster: &Cluster) -> Outcome {
    let has_failed = |topology: &Topology| {
        let primary = topology.my_primary()?;
        let failed = topology.nodes.get(primary)?.has_failed && topology.has_slots(primary);
        failed.then(|| rank(topology))
    };
    let Some(rank) = cluster.read(has_failed) else { return Ok(()) };
    // Those that have come farther go first.
    let step = Duration::from_millis((cluster.timeout_ms() / 4).clamp(50, 1_000));
    tokio::time::sleep(step * rank + step.mul_f64(rand::random_range(0.0..0.5))).await;
    if cluster.read(has_failed).is_some() {
        elect(server, cluster, false).await?;
    }
    Ok(())
}

/// How a failover is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With the primary, which waits meanwhile: nothing is lost.
    Together,
    /// Without it.
    Force,
    /// Without anybody's vote.
    Takeover,
}

/// Takes the place of the primary because somebody asks for it.
///
/// # Errors
/// Where this node follows nobody, or the primary or the majority does not agree.
pub async fn start(server: &Server, cluster: &Cluster, how: How) -> Outcome {
    let primary = cluster.read(|topology| {
        let primary = topology.my_primary()?;
        topology.nodes.get(primary).map(|node| (node.host.clone(), node.port))
    });
    let (host, port) = primary.ok_or(Failure::coded("ERR You should send CLUSTER FAILOVER to a replica"))?;
    match how {
        How::Takeover => {
            cluster.change(|topology| take_over(topology, topology.epoch + 1))?;
            return settle_role(server, cluster);
        }
        How::Force => {}
        How::Together => {
            let mut peer = Peer::connect(server, &host, port).await?;
            peer.ask(&["CLIENT", "PAUSE", "5000", "WRITE"]).await?;
            let role = peer.ask(&["INFO", "replication"]).await?;
            let position = role.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
            let position: u64 = position.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
            let has_all = || server.replication.link().is_some_and(|link| link.position() >= position);
            for _ in 0..400 {
                if has_all() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if !has_all() {
                return Err(Failure::new("the replica did not catch up within four seconds; try again"));
            }
        }
    }
    if elect(server, cluster, true).await? {
        Ok(())
    } else {
        Err(Failure::new("most nodes did not vote for it; try again, or CLUSTER FAILOVER TAKEOVER"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;

    fn id(digit: char) -> String {
        digit.to_string().repeat(40)
    }

    /// A voter with a slot, a primary with one that has failed, and its replica.
    fn three() -> Topology {
        let mut topology = Topology::new(&id('a'), 0);
        for (digit, primary) in [('b', None), ('c', Some('b'))] {
            let mut node = Node::at("h", 1, 0);
            node.primary = primary.map(|digit| id(digit).as_str().into());
            node.has_failed = digit == 'b';
            topology.nodes.insert(id(digit).as_str().into(), node);
        }
        topology.give(0, Some(id('a').as_str().into()));
        topology.give(1, Some(id('b').as_str().into()));
        topology
    }

    #[test]
    fn a_voter_votes_once_in_an_epoch() {
        let mut topology = three();
        assert!(grant(&mut topology, &id('c'), 1, false));
        assert!(!grant(&mut topology, &id('c'), 1, false));
        assert!(grant(&mut topology, &id('c'), 2, false));
        assert!(!grant(&mut topology, &id('b'), 3, false), "it follows nobody");
        topology.nodes.get_mut(&*id('b')).unwrap().has_failed = false;
        assert!(!grant(&mut topology, &id('c'), 3, false));
        assert!(grant(&mut topology, &id('c'), 3, true), "somebody asks for it");
    }

    #[test]
    fn who_lost_all_slots_follows_who_took_them() {
        let mut old = three();
        old.me = id('b').as_str().into();
        let mut new = three();
        new.me = id('c').as_str().into();
        new.myself().port = 1;
        take_over(&mut new, 5);
        old.merge(&new.write(), "h", 1).unwrap();
        step_aside(&mut old);
        assert_eq!(old.my_primary().map(|id| id.to_string()), Some(id('c')));
    }
}
