//! What a region's filter says of its runs.

/// What a filter says of a run and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The run does not hold the key's newest version.
    No,
    /// It may.
    Yes,
    /// The filter does not know the run, or can only rule runs out.
    Unknown,
}

/// What a filter says of each run of a region, newest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates {
    /// The next run's place, and how many there are.
    place: usize,
    runs: usize,
    /// Of how many of the oldest runs `slots` speaks.
    covered: usize,
    /// The runs that may hold the key, the oldest lowest.
    slots: u64,
    /// The runs that certainly do not, the newest lowest.
    absent: u128,
}

impl Candidates {
    /// Returns the place of the next run.
    #[inline]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns what is said of the run at `place` and those after it.
    pub fn from(&self, place: usize) -> Self {
        Self { place, ..*self }
    }

    /// Nothing is known of any of `runs` runs.
    #[inline]
    pub fn unknown(runs: usize) -> Self {
        Self { place: 0, runs, covered: 0, slots: 0, absent: 0 }
    }

    /// Of the `covered` oldest runs those may hold the key that `slots` names, the oldest lowest.
    #[inline]
    pub fn named(runs: usize, covered: usize, slots: u64) -> Self {
        Self { place: 0, runs, covered, slots, absent: 0 }
    }

    /// The runs that `absent` names, the newest lowest, certainly do not hold the key.
    #[inline]
    pub fn ruled_out(runs: usize, absent: u128) -> Self {
        Self { place: 0, runs, covered: 0, slots: 0, absent }
    }
}

impl Iterator for Candidates {
    type Item = Candidate;

    #[inline]
    fn next(&mut self) -> Option<Candidate> {
        let slot = self.runs.checked_sub(self.place + 1)?;
        let place = self.place as u32;
        self.place += 1;
        Some(match slot {
            _ if self.absent.checked_shr(place).unwrap_or(0) & 1 == 1 => Candidate::No,
            _ if slot >= self.covered => Candidate::Unknown,
            _ if self.slots >> slot & 1 == 1 => Candidate::Yes,
            _ => Candidate::No,
        })
    }
}
