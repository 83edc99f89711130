//! What a store has written, and the space that it has taken, while it was filled.

/// Bytes on disk over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    sum: f64,
    samples: f64,
    pub peak_bytes: f64,
}

impl Space {
    pub fn note(&mut self, bytes: f64) {
        self.sum += bytes;
        self.samples += 1.0;
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    pub fn mean_bytes(&self) -> f64 {
        self.sum / self.samples.max(1.0)
    }
}

/// What was written into a level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub bytes: f64,
    pub entries: f64,
    /// Entries times the logarithm of the runs that they were merged from.
    pub compared: f64,
    /// Bytes that were read for it.
    pub read_bytes: f64,
    /// Runs.
    pub runs: f64,
    /// Bytes that came as runs of their own into regions that merge no garbage: nothing but joins would merge
    /// them there.
    pub unmerged_bytes: f64,
    /// Entries whose keys an older run of their region had, where it had some.
    pub present: f64,
}

impl Written {
    /// The same where what is not merged is joined, and so written so many times more.
    pub fn with_joins(&self, times: f64) -> Self {
        let more_bytes = self.unmerged_bytes * times;
        let more = if more_bytes > 0.0 { more_bytes / self.bytes } else { 0.0 };
        Self {
            bytes: self.bytes + more_bytes,
            entries: self.entries * (1.0 + more),
            // Two at a time.
            compared: self.compared + self.entries * more,
            read_bytes: self.read_bytes + more_bytes,
            runs: self.runs * (1.0 + more / 2.0),
            ..*self
        }
    }

    /// What was written since it was so much.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            entries: self.entries - before.entries,
            compared: self.compared - before.compared,
            read_bytes: self.read_bytes - before.read_bytes,
            runs: self.runs - before.runs,
            unmerged_bytes: self.unmerged_bytes - before.unmerged_bytes,
            present: self.present - before.present,
        }
    }
}
