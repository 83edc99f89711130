//! Counts how often the store agrees with the truth, and keeps the first examples of where it does not.

use serde::Serialize;

/// Examples kept of each kind.
const MAX_KEPT: usize = 5;

/// The outcome of many comparisons.
#[derive(Debug, Default, Serialize)]
pub struct Agreement {
    /// Comparisons whose truth is known: those below are not among them.
    pub checked: u64,
    /// Those in which the store was right.
    pub agreed: u64,
    /// Comparisons left out because somebody changed the files since they were stored.
    pub changed_meanwhile: u64,
    /// The first disagreements.
    pub disagreements: Vec<String>,
    /// The first changes.
    pub changes: Vec<String>,
}

impl Agreement {
    /// The store is right.
    pub fn agree(&mut self) {
        self.checked += 1;
        self.agreed += 1;
    }

    /// The store is wrong.
    pub fn disagree(&mut self, what: impl FnOnce() -> String) {
        self.checked += 1;
        if self.disagreements.len() < MAX_KEPT {
            self.disagreements.push(what());
        }
    }

    /// The store is right if `right`.
    pub fn check(&mut self, right: bool, what: impl FnOnce() -> String) {
        if right { self.agree() } else { self.disagree(what) }
    }

    /// The store holds what it was given, but the truth has moved on.
    pub fn changed(&mut self, what: impl FnOnce() -> String) {
        self.changed_meanwhile += 1;
        if self.changes.len() < MAX_KEPT {
            self.changes.push(what());
        }
    }

    /// Whether the store was right every time.
    pub fn is_full(&self) -> bool {
        self.agreed == self.checked
    }

    /// Adds other comparisons.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.agreed += other.agreed;
        self.changed_meanwhile += other.changed_meanwhile;
        for (mine, theirs) in
            [(&mut self.disagreements, &other.disagreements), (&mut self.changes, &other.changes)]
        {
            mine.extend(theirs.iter().take(MAX_KEPT.saturating_sub(mine.len())).cloned());
        }
    }

    /// `100 %`, or as many digits as it takes not to say 100 when it is not.
    pub fn percent(&self) -> String {
        if self.is_full() {
            return "100 %".to_owned();
        }
        let percent = 100.0 * self.agreed as f64 / self.checked as f64;
        format!("{:.4} %", percent.min(99.9999))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disagreement_in_a_billion_is_not_100_percent() {
        let mut agreement =
            Agreement { checked: 1_000_000_000, agreed: 1_000_000_000, ..Agreement::default() };
        assert_eq!(agreement.percent(), "100 %");
        agreement.disagree(|| "x".to_owned());
        assert_eq!(agreement.percent(), "99.9999 %");
        assert!(!agreement.is_full());
    }

    #[test]
    fn changes_do_not_count_either_way() {
        let mut agreement = Agreement::default();
        agreement.agree();
        agreement.changed(|| "moved".to_owned());
        let mut all = Agreement::default();
        all.add(&agreement);
        assert_eq!((all.percent().as_str(), all.changed_meanwhile, all.checked), ("100 %", 1, 1));
        assert_eq!(all.changes, ["moved"]);
    }
}
