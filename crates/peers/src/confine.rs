//! A memory cap by control group, so that page cache counts as well: what a process may not keep is read
//! again.
//!
//! Every run gets a group of its own below a group where we may make one: of the memory controller's
//! hierarchy (version 1) or of the unified one (version 2). The child enters it before it opens a store, and
//! its group says afterwards how much memory there was at most and whether the kernel had to kill. Where no
//! group can be made the run is not confined, and its record says so.
//!
//! Version 2 lets only groups without processes of their own hand out controllers; a user's session is not
//! one. There, `systemd-run --user --scope` puts the program where it may make groups, and root may always
//! make them at the top.

use crate::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// The group of one run; removed with it.
#[derive(Debug)]
pub struct Group {
    membership: Membership,
}

/// The directory of a run's group; what its process needs to know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group with the memory cap.
    memory: Option<PathBuf>,
}

impl Group {
    /// Groups called `name` with a cap of `cap_bytes`; without a memory cap where none can be made.
    pub fn new(name: &str, cap_bytes: u64) -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::below(Path::new(ROOT), &own, name, cap_bytes)
    }

    /// The same in the hierarchies at `root`, for a process whose `/proc/self/cgroup` is `own`.
    fn below(root: &Path, own: &str, name: &str, cap_bytes: u64) -> Self {
        let path_of = |controller: &str| {
            own.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let controllers = fields.next()?;
                let path = fields.next()?.trim_start_matches('/');
                controllers.split(',').any(|c| c == controller).then(|| PathBuf::from(path))
            })
        };
        let mut membership = Membership::default();
        if let Some(own) = path_of("memory").filter(|_| root.join("memory").is_dir()) {
            membership.memory = make(&root.join("memory"), &own, name, "memory.limit_in_bytes", cap_bytes);
        } else if let Some(own) = path_of("") {
            let unified = if root.join("unified").is_dir() { root.join("unified") } else { root.to_owned() };
            membership.memory = make(&unified, &own, name, "memory.max", cap_bytes);
            if let Some(dir) = &membership.memory {
                // Or what does not fit would be swapped, which no engine was made for.
                let _ = std::fs::write(dir.join("memory.swap.max"), "0");
            }
        }
        Self { membership }
    }

    /// What the run's process needs to know.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Times that the kernel killed in this group because memory ran out.
    pub fn kills(&self) -> u64 {
        let Some(dir) = &self.membership.memory else { return 0 };
        ["memory.oom_control", "memory.events"]
            .iter()
            .filter_map(|file| std::fs::read_to_string(dir.join(file)).ok())
            .find_map(|text| {
                text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            })
            .unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(dir) = &self.membership.memory {
            // Cached pages would keep a group of version 1 alive after its directory.
            let _ = std::fs::write(dir.join("memory.force_empty"), "0");
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// A group with a limit, in the process's own group or else in the nearest group above it that takes one.
fn make(hierarchy: &Path, own: &Path, name: &str, limit: &str, bytes: u64) -> Option<PathBuf> {
    own.ancestors().find_map(|parent| {
        let dir = hierarchy.join(parent).join(name);
        std::fs::create_dir(&dir).ok()?;
        let limited = dir.join(limit).exists() && std::fs::write(dir.join(limit), bytes.to_string()).is_ok();
        if !limited {
            let _ = std::fs::remove_dir(&dir);
        }
        limited.then_some(dir)
    })
}

impl Membership {
    /// Whether there is a memory cap.
    pub fn is_capped(&self) -> bool {
        self.memory.is_some()
    }

    /// Moves this process into the group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> Result<()> {
        if let Some(dir) = &self.memory {
            let file = dir.join("cgroup.procs");
            std::fs::write(&file, "0").map_err(|e| Failure::at(&file, e))?;
        }
        Ok(())
    }

    /// The most memory the group has held, page cache included.
    pub fn peak_bytes(&self) -> Option<u64> {
        let dir = self.memory.as_ref()?;
        ["memory.max_usage_in_bytes", "memory.peak"]
            .iter()
            .find_map(|file| std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok())
    }

    /// Requests to read that the group's processes have made of devices: version 2 counts them, if the group
    /// has the block I/O controller.
    pub fn device_reads(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.memory.as_ref()?.join("io.stat")).ok()?;
        let requests =
            |line: &str| line.split(' ').find_map(|word| word.strip_prefix("rios=")?.parse::<u64>().ok());
        Some(text.lines().filter_map(requests).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_hierarchy_nothing_is_capped() {
        let root = tempfile::tempdir().unwrap();
        let group = Group::below(root.path(), "4:memory:/a\n0::/\n", "run", 1 << 20);
        assert!(!group.membership().is_capped());
        assert_eq!((group.kills(), group.membership().peak_bytes()), (0, None));
        group.membership().enter().unwrap();
    }

    #[test]
    fn a_group_that_takes_no_limit_is_removed_again() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("memory/a/b")).unwrap();
        let group = Group::below(root.path(), "4:memory:/a/b\n", "run", 1 << 20);
        assert!(!group.membership().is_capped());
        assert!(!root.path().join("memory/a/b/run").exists() && !root.path().join("memory/run").exists());
    }

    #[test]
    fn figures_of_both_versions_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let membership = Membership { memory: Some(path.to_owned()) };
        assert_eq!((membership.peak_bytes(), membership.device_reads()), (None, None));
        std::fs::write(path.join("memory.events"), "low 0\noom 3\noom_kill 1\n").unwrap();
        std::fs::write(path.join("memory.peak"), "55\n").unwrap();
        std::fs::write(path.join("io.stat"), "254:0 rbytes=8192 wbytes=0 rios=2 wios=0\n8:0 rios=5\n")
            .unwrap();
        assert_eq!((membership.peak_bytes(), membership.device_reads()), (Some(55), Some(7)));
        let group = Group { membership };
        assert_eq!(group.kills(), 1);
        std::fs::write(path.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
            .unwrap();
        std::fs::write(path.join("memory.max_usage_in_bytes"), "77\n").unwrap();
        assert_eq!((group.kills(), group.membership().peak_bytes()), (2, Some(77)));
    }

    /// Where the machine lets us, a real group.
    #[test]
    fn a_real_group_is_made_and_removed() {
        let name = format!("siltstone-peers-test-{}", std::process::id());
        let group = Group::new(&name, 64 << 20);
        let Some(dir) = group.membership().memory.clone() else { return };
        assert!(dir.is_dir() && group.membership().peak_bytes().is_some());
        drop(group);
        assert!(!dir.exists());
    }
}
