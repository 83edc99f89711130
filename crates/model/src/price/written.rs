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
    /// Entries whose keys an older run of their region had, where it had some.
    pub present: f64,
}

impl Written {
    /// The same where what is written is joined so many times more.
    pub fn with_joins(&self, anew: f64) -> Self {
        Self {
            bytes: self.bytes * (1.0 + anew),
            entries: self.entries * (1.0 + anew),
            // Two at a time.
            compared: self.compared + self.entries * anew,
            read_bytes: self.read_bytes + self.bytes * anew,
            runs: self.runs * (1.0 + anew / 2.0),
            present: self.present,
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
            present: self.present - before.present,
        }
    }
}
