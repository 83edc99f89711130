//! Tags, four to a word, and which two buckets a key's tag may stand in.
//!
//! ```text
//! word   one bucket: 4 lanes of 16 bits, the first one lowest
//! lane   0: empty; else 0x8000 + tag
//! ```

use super::LANES;

/// Most buckets in the form where the tag is the number of a bucket.
pub const MOST_BUCKETS_BY_TAG: u32 = 1 << TAG_BITS;

const TAG_BITS: u32 = 15;
const TAKEN: u16 = 1 << TAG_BITS;
/// The top bit, and the lowest bit, of every lane.
const TOPS: u64 = 0x8000_8000_8000_8000;
const ONES: u64 = 0x0001_0001_0001_0001;

/// What a tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The number of the entry's other bucket (SILT §3.1).
    OtherBucket,
    /// Bits of the key; the other bucket follows from them and the bucket.
    Mixed,
}

/// A bucket that an entry may stand in, and its tag there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) bucket: u32,
    pub(super) tag: u16,
}

/// The tags of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tags {
    form: Form,
    words: Vec<u64>,
    entries: u64,
}

/// `hash`, of 32 bits, brought into `0..range`.
#[inline]
fn scaled(hash: u32, range: u32) -> u32 {
    ((u64::from(hash) * u64::from(range)) >> 32) as u32
}

/// The two seats of a key in a table of so many buckets; both may be in one bucket.
#[inline]
pub(super) fn seats(form: Form, buckets: u32, hash: u64) -> [Seat; 2] {
    let first = scaled((hash >> 32) as u32, buckets);
    match form {
        Form::OtherBucket => {
            let second = scaled(hash as u32, buckets);
            [Seat { bucket: first, tag: second as u16 }, Seat { bucket: second, tag: first as u16 }]
        }
        Form::Mixed => {
            let tag = hash as u16 & !TAKEN;
            [Seat { bucket: first, tag }, Seat { bucket: mirrored(buckets, first, tag), tag }]
        }
    }
}

/// The bucket on the other side of a tag: from there one gets back by the same way.
#[inline]
fn mirrored(buckets: u32, bucket: u32, tag: u16) -> u32 {
    // 2^32 over the golden ratio spreads neighbouring tags.
    let sum = scaled((u32::from(tag) + 1).wrapping_mul(0x9e37_79b1), buckets);
    if sum >= bucket { sum - bucket } else { sum + (buckets - bucket) }
}

impl Tags {
    pub(super) fn new(form: Form, buckets: u32) -> Self {
        assert!(buckets > 0, "a table has at least one bucket");
        assert!(
            form == Form::Mixed || buckets <= MOST_BUCKETS_BY_TAG,
            "{buckets} buckets, but tags that name buckets have {TAG_BITS} bits"
        );
        Tags { form, words: vec![0; buckets as usize], entries: 0 }
    }

    /// The tags in `words`; `None` if an empty lane is not zero, or a tag names a bucket that is not there.
    pub(super) fn from_words(form: Form, words: Vec<u64>) -> Option<Self> {
        let buckets = u32::try_from(words.len()).ok().filter(|buckets| *buckets > 0)?;
        let mut entries = 0;
        for lane in words.iter().flat_map(|word| lanes(*word)) {
            let is_sound =
                lane == 0 || lane & TAKEN != 0 && (form == Form::Mixed || u32::from(lane & !TAKEN) < buckets);
            if !is_sound {
                return None;
            }
            entries += u64::from(lane != 0);
        }
        (form == Form::Mixed || buckets <= MOST_BUCKETS_BY_TAG).then_some(Tags { form, words, entries })
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn buckets(&self) -> u32 {
        self.words.len() as u32
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The two seats of a key; both may be in one bucket.
    #[inline]
    pub(super) fn seats(&self, hash: u64) -> [Seat; 2] {
        seats(self.form, self.buckets(), hash)
    }

    /// Where the entry in this lane could also stand.
    #[inline]
    pub(super) fn other_seat(&self, bucket: u32, lane: u8) -> Seat {
        let tag = lanes(self.word(bucket)).get(usize::from(lane)).map_or(0, |lane| lane & !TAKEN);
        match self.form {
            Form::OtherBucket => Seat { bucket: u32::from(tag), tag: bucket as u16 },
            Form::Mixed => Seat { bucket: mirrored(self.buckets(), bucket, tag), tag },
        }
    }

    #[inline]
    fn word(&self, bucket: u32) -> u64 {
        self.words.get(bucket as usize).copied().unwrap_or(0)
    }

    /// The first empty lane of a bucket.
    #[inline]
    pub(super) fn room(&self, bucket: u32) -> Option<u8> {
        let empty = !self.word(bucket) & TOPS;
        (empty != 0).then(|| (empty.trailing_zeros() / 16) as u8)
    }

    #[inline]
    pub(super) fn is_taken(&self, bucket: u32, lane: u8) -> bool {
        self.word(bucket) >> (16 * u32::from(lane)) & u64::from(TAKEN) != 0
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "buckets are counted in words; an entry without one would be lost"
    )]
    pub(super) fn set(&mut self, bucket: u32, lane: u8, tag: u16) {
        let shift = 16 * u32::from(lane);
        let word = &mut self.words[bucket as usize];
        self.entries += u64::from(*word >> shift & u64::from(TAKEN) == 0);
        *word = *word & !(0xffff << shift) | u64::from(tag | TAKEN) << shift;
    }

    /// Empties a lane.
    #[expect(clippy::indexing_slicing, reason = "buckets are counted in words")]
    pub(super) fn clear(&mut self, bucket: u32, lane: u8) {
        let shift = 16 * u32::from(lane);
        let word = &mut self.words[bucket as usize];
        self.entries -= *word >> shift >> TAG_BITS & 1;
        *word &= !(0xffff << shift);
    }

    /// The top bit of every lane of a bucket that holds `tag`.
    #[inline]
    fn matches(&self, Seat { bucket, tag }: Seat) -> u64 {
        let differing = self.word(bucket) ^ (u64::from(tag | TAKEN) * ONES);
        // A lane is zero where neither its low bits carry into its top bit nor that is set.
        !(((differing & !TOPS) + !TOPS) | differing) & TOPS
    }

    /// Calls `visit` with every lane whose tag agrees with the key's.
    #[inline]
    pub(super) fn visit(&self, hash: u64, mut visit: impl FnMut(u32, u8)) {
        let [first, second] = self.seats(hash);
        let mut of_seat = |seat: Seat| {
            let mut found = self.matches(seat);
            while found != 0 {
                visit(seat.bucket, (found.trailing_zeros() / 16) as u8);
                found &= found - 1;
            }
        };
        of_seat(first);
        if second.bucket != first.bucket {
            of_seat(second);
        }
    }

    /// Whether any lane's tag agrees with the key's.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let [first, second] = self.seats(hash);
        self.matches(first) | self.matches(second) != 0
    }

    /// Fetches the cache lines of these keys' buckets side by side.
    #[inline]
    pub(super) fn prefetch(&self, hashes: &[u64]) {
        let touched = hashes.iter().fold(0, |sum, hash| {
            let [first, second] = self.seats(*hash);
            sum ^ self.word(first.bucket) ^ self.word(second.bucket)
        });
        std::hint::black_box(touched);
    }
}

/// The lanes of a word.
#[inline]
fn lanes(word: u64) -> [u16; LANES] {
    [0, 16, 32, 48].map(|shift| (word >> shift) as u16)
}
