//! How often what is read is in the cache already.
//!
//! The cache keeps answers for single keys and pages of tables, and learns how to divide its memory between
//! them. What either keeps is what is asked for again soon ([`replacement`](super::replacement)). Nobody asks
//! for a page in a time in which nobody asks for any of its items, nor for a key that a filter takes for one
//! of its run's. Runs differ in that: young ones hold what is written, and read, most
//! ([`requests`](super::requests)).
//!
//! Answers stand before pages: what they answer asks no page.
//!
//! Both are of tables and go with them, so that a page of a merge is read once more before it is kept again
//! ([`lifetimes`](super::lifetimes)).
//!
//! *Limits*: the cache is taken to be divided as well as can be, which a store that was just opened has yet
//! to find out.

use super::lifetimes::Lifetimes;
use super::reads::{PageClass, Pages};
use super::replacement::{ANSWERS, PAGES, Times, absent_of_living};
use super::requests::Requests;
use super::workload::{Mix, Workload};

/// Bytes of an answer beside its key and value, and what the memory that it lies in takes beside it.
const ANSWER_BYTES: f64 = 24.0;
const ANSWER_SPACE: f64 = 4608.0 / 4096.0;
/// Bytes of the largest answer that is kept, its key and value included.
const MOST_ANSWER_BYTES: f64 = 1024.0;
/// Bytes of a cached page.
const CACHED_PAGE_BYTES: f64 = 4096.0 + 96.0;
/// Parts that the cache is divided into.
const PARTS: u32 = 16;
/// Divisions that are tried at first beside one without answers, and how far from the best of them others
/// then are; and those that do for a rough price.
const FIRST_TRIED: [u32; 4] = [1, 5, 10, 15];
const THEN_TRIED: [u32; 2] = [2, 1];
const TRIED_ROUGHLY: [u32; 2] = [1, 13];
/// The part of a table's life that says how often a page is asked for in all of it: in a longer time all of
/// its items are, be it once or often.
const PART_OF_LIFE: f64 = 1.0 / 32.0;
/// Requests for each item after which nothing changes any more.
const LONGEST: f64 = 1e4;

/// Device reads of each kind of read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceReads {
    pub hit: f64,
    pub miss: f64,
    pub scan: f64,
}

impl DeviceReads {
    fn of(&self, mix: &Mix) -> f64 {
        mix.hits * self.hit + mix.misses * self.miss + mix.scans * self.scan
    }
}

/// A cache of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cache<'a> {
    /// Whether answers are kept by themselves.
    pub keeps_answers: bool,
    /// Whether a rough division will do.
    pub is_rough: bool,
    pub workload: &'a Workload,
    /// How long what it keeps lives.
    pub lifetimes: &'a Lifetimes,
}

impl Cache<'_> {
    /// The reads that it does not spare at each of some moments, at which it has so many bytes, when it is
    /// divided as well as can be at the first: the border does not follow the moment.
    pub fn missed(&self, requests: &Requests, at_moments: &[(f64, Pages)]) -> Vec<DeviceReads> {
        let mut mix = self.workload.mix.normalized();
        if mix.hits + mix.misses + mix.scans <= 0.0 {
            mix = Mix { hits: 1.0, ..mix };
        }
        let kept = KeptAnswers::of(self.workload);
        let with = |(bytes, pages): &(f64, Pages), part: u32| {
            let asking = Asking { requests, pages, mix, kept, lifetimes: self.lifetimes };
            let of_answers = bytes * f64::from(part) / f64::from(PARTS);
            let answers = asking.answers_times(of_answers);
            asking.missed(answers, (bytes - of_answers) / CACHED_PAGE_BYTES)
        };
        let Some((first, others)) = at_moments.split_first() else { return Vec::new() };
        let (part, at_first) = self.divided(|part| with(first, part), &mix);
        std::iter::once(at_first).chain(others.iter().map(|pages| with(pages, part))).collect()
    }

    /// The part of it that answers have when it is divided as well as can be, and what is then read.
    fn divided(&self, with: impl Fn(u32) -> DeviceReads, mix: &Mix) -> (u32, DeviceReads) {
        let mut best = (0, with(0));
        if !self.keeps_answers {
            return best;
        }
        let better = |part: u32, best: (u32, DeviceReads)| {
            let reads = with(part);
            if reads.of(mix) < best.1.of(mix) { (part, reads) } else { best }
        };
        let (first, then) =
            if self.is_rough { (&TRIED_ROUGHLY[..], &[][..]) } else { (&FIRST_TRIED[..], &THEN_TRIED[..]) };
        for part in first {
            best = better(*part, best);
        }
        for far in then {
            for part in [best.0.saturating_sub(*far).max(1), (best.0 + far).min(PARTS - 1)] {
                best = better(part, best);
            }
        }
        best
    }
}

/// Which answers are kept: those that are not too large.
#[derive(Clone, Copy)]
struct KeptAnswers {
    /// Memory that one takes which says that a key is absent.
    absent_bytes: f64,
    /// The share of items whose answers are kept,
    share: f64,
    /// and the memory that one takes on the average, those that are not kept included.
    bytes: f64,
}

impl KeptAnswers {
    fn of(workload: &Workload) -> Self {
        let head_bytes = ANSWER_BYTES + workload.key_bytes;
        let absent_bytes = head_bytes * ANSWER_SPACE;
        let (mut share, mut bytes) = (0.0, 0.0);
        for size in workload.value_sizes() {
            if head_bytes + size.value_bytes <= MOST_ANSWER_BYTES {
                share += size.share;
                bytes += size.share * (absent_bytes + size.value_bytes * ANSWER_SPACE);
            }
        }
        Self { absent_bytes, share, bytes }
    }
}

/// What is asked of the caches, by operations of a mix.
struct Asking<'a> {
    requests: &'a Requests,
    pages: &'a Pages,
    mix: Mix,
    kept: KeptAnswers,
    lifetimes: &'a Lifetimes,
}

/// Requests for one kind of keys that come through the answers.
struct Through {
    /// Of each group: the share of requests that come through, and how many of them an operation brings.
    groups: Vec<(f64, f64)>,
}

impl Through {
    /// Those of so many operations, of which a share asks for answers that are kept and live so long.
    fn of(requests: &Requests, per_operation: f64, kept: f64, answers: Times, lifetime: f64) -> Self {
        let through = |rate: f64| {
            let rate = rate * per_operation;
            let untouched = answers.map(|time| (-rate * time).exp());
            let passed = 1.0 - kept + kept * absent_of_living(untouched, rate * lifetime);
            (passed, rate * passed)
        };
        Self { groups: requests.groups().iter().map(|group| through(group.rate)).collect() }
    }

    /// Of each group, the share of keys that nobody came through to ask for in so many operations.
    fn untouched(&self, time: f64) -> Vec<f64> {
        self.groups.iter().map(|(_, rate)| (-rate * time).exp()).collect()
    }

    /// Of so large shares of requests, of each group, those that come through.
    fn passed(&self, shares: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
        shares.zip(&self.groups).map(|(share, (passed, _))| share * passed)
    }
}

/// Requests that come through the answers: gets of items and of absent keys.
struct ThroughAnswers {
    items: Through,
    absent_keys: Through,
}

/// How many keys were asked for in a time.
struct Touching {
    /// Of each group of items and of absent keys, the share that nobody asked for.
    untouched: Vec<f64>,
    absent_keys: Vec<f64>,
    hits: f64,
    misses: f64,
    scans: f64,
}

/// What was asked for in a time: how many keys, and of groups that are listed for an item the share that
/// nobody listed.
struct Asked {
    touching: Touching,
    lists: Vec<f64>,
}

impl Asked {
    fn items(&self) -> &[f64] {
        &self.touching.untouched
    }

    fn absent_keys(&self) -> &[f64] {
        &self.touching.absent_keys
    }
}

/// What was asked for in each of a cache's times, and in one within the life of a table, of which that has so
/// many.
struct AskedInTimes<'a> {
    times: [&'a Asked; 3],
    within_life: &'a Asked,
    in_life: f64,
}

impl AskedInTimes<'_> {
    /// The share of requests that find a page absent, where so large shares of requests are for each group:
    /// one that neither those for the `same` as they nor `others` have asked for.
    fn missed(
        &self,
        shares: impl Iterator<Item = f64>,
        same: impl Fn(&Asked) -> &[f64],
        others: impl Fn(&Asked) -> f64,
    ) -> f64 {
        let [newcomer, noted, staying] = self.times.map(|asked| (same(asked), others(asked)));
        let in_life = (same(self.within_life), others(self.within_life));
        let groups = newcomer.0.iter().zip(noted.0).zip(staying.0).zip(in_life.0);
        let absent = groups.map(|(((of_newcomer, of_noted), of_staying), of_life)| {
            let untouched = [of_newcomer * newcomer.1, of_noted * noted.1, of_staying * staying.1];
            absent_of_living(untouched, -(of_life * in_life.1).ln() * self.in_life)
        });
        shares.zip(absent).map(|(share, absent)| share * absent).sum()
    }
}

impl Asking<'_> {
    /// The times of answers that have so many bytes.
    fn answers_times(&self, bytes: f64) -> Times {
        let KeptAnswers { absent_bytes: absent, bytes: found, .. } = self.kept;
        let (by_hit, by_miss) = self.pages.classes().fold((0.0, 0.0), |(hits, misses), class| {
            (hits + class.vain_by_hit, misses + class.vain_by_miss)
        });
        let groups = self.requests.groups();
        let kinds = [(self.mix.hits, found + by_hit * absent), (self.mix.misses, by_miss * absent)];
        let all = || kinds.iter().flat_map(|kind| groups.iter().map(move |group| (kind, group)));
        let sizes: Vec<f64> = all().map(|((_, bytes), group)| bytes * group.items).collect();
        let untouched =
            |time: f64| all().map(|((share, _), group)| (-group.rate * share * time).exp()).collect();
        ANSWERS.times(bytes, &sizes, untouched, self.longest())
    }

    /// Operations after which nothing changes any more.
    fn longest(&self) -> f64 {
        self.requests.items() * LONGEST
    }

    /// What is read with answers of some times, and room for so many pages.
    fn missed(&self, answers: Times, room: f64) -> DeviceReads {
        let classes: Vec<&PageClass> = self.pages.classes().collect();
        let sizes: Vec<f64> = classes.iter().map(|class| class.pages).collect();
        let has_room = room >= sizes.iter().sum();
        if has_room && self.lifetimes.are_unlimited() {
            return DeviceReads::default();
        }
        let through = self.through(answers);
        let times = if has_room {
            [self.longest(); 3]
        } else {
            let untouched = |time: f64| {
                let touching = self.touching(&through, time);
                classes.iter().map(|class| class.untouched(class.per_page(), &touching)).collect()
            };
            PAGES.times(room, &sizes, untouched, self.longest())
        };
        let asked = times.map(|time| self.asked_in(&through, time));
        let ([_, noted, _], [_, asked_when_noted, _]) = (times, &asked);
        let mut reads = DeviceReads::default();
        for of_level in classes.chunk_by(|class, next| class.level == next.level) {
            let level = of_level.first().map_or(0, |class| class.level);
            let lifetime = self.lifetimes.of_level(level);
            let within_life = lifetime * PART_OF_LIFE;
            let asked_in_life = (within_life < noted).then(|| self.asked_in(&through, within_life));
            let asked = AskedInTimes {
                times: asked.each_ref(),
                within_life: asked_in_life.as_ref().unwrap_or(asked_when_noted),
                in_life: (lifetime / noted).max(1.0 / PART_OF_LIFE),
            };
            for class in of_level {
                let missed = self.missed_of(class, &through, &asked);
                reads.hit += missed.hit;
                reads.miss += missed.miss;
                reads.scan += missed.scan;
            }
        }
        reads
    }

    /// Requests that come through answers of some times.
    fn through(&self, answers: Times) -> ThroughAnswers {
        let classes = || self.pages.classes();
        let found = |class: &PageClass| self.requests.share(&class.found) + class.vain_by_hit;
        let of_items = self.lifetimes.mean(classes().map(|class| (class.level, found(class))));
        let of_absent = self.lifetimes.mean(classes().map(|class| (class.level, class.vain_by_miss)));
        let Self { requests, mix, kept, .. } = self;
        ThroughAnswers {
            items: Through::of(requests, mix.hits, kept.share, answers, of_items),
            absent_keys: Through::of(requests, mix.misses, 1.0, answers, of_absent),
        }
    }

    /// What is read of the pages of a class.
    fn missed_of(
        &self,
        class: &PageClass,
        through: &ThroughAnswers,
        asked: &AskedInTimes<'_>,
    ) -> DeviceReads {
        let ThroughAnswers { items, absent_keys } = through;
        let groups = || self.requests.groups().iter();
        let all = || groups().map(|group| group.items * group.rate);
        let found = groups().zip(&class.found).map(|(group, found)| group.rate * found);
        // An item lies with one entry less than there are on a page.
        let with_another = (class.per_page() - 1.0).max(0.0);
        let others = |asked: &Asked| class.untouched(with_another, &asked.touching);
        let any = |asked: &Asked| class.untouched(class.per_page(), &asked.touching);
        DeviceReads {
            hit: class.pages_by_found * asked.missed(items.passed(found), Asked::items, others)
                + class.vain_by_hit * asked.missed(items.passed(all()), Asked::items, any),
            miss: class.vain_by_miss * asked.missed(absent_keys.passed(all()), Asked::absent_keys, any),
            scan: class.by_scan * asked.missed(all(), |asked| &asked.lists, any),
        }
    }

    /// What comes through in so many operations.
    fn asked_in(&self, through: &ThroughAnswers, time: f64) -> Asked {
        Asked { touching: self.touching(through, time), lists: self.lists_untouched(time) }
    }

    /// Of groups that are listed for an item of each kind, the share of those that nobody lists in so many
    /// operations beyond what is listed of any group: groups are listed as often as their items are asked.
    fn lists_untouched(&self, time: f64) -> Vec<f64> {
        let mean = 1.0 / self.requests.items();
        let beyond = |rate: f64| (rate - mean).max(0.0) * self.mix.scans;
        self.requests.groups().iter().map(|group| (-beyond(group.rate) * time).exp()).collect()
    }

    /// How many groups of items with a prefix in common are listed in so many operations.
    fn listed(&self, time: f64) -> f64 {
        if self.mix.scans <= 0.0 {
            return 0.0;
        }
        let (prefixes, items) = (self.requests.prefixes(), self.requests.items());
        let groups = self.requests.groups().iter();
        let alone: f64 =
            groups.map(|group| group.items * (-group.rate * self.mix.scans * time).exp()).sum::<f64>()
                / items;
        prefixes * (1.0 - alone.powf(items / prefixes))
    }

    /// How many keys come through in so many operations.
    fn touching(&self, through: &ThroughAnswers, time: f64) -> Touching {
        let touched = |untouched: &[f64]| -> f64 {
            let groups = self.requests.groups().iter().zip(untouched);
            groups.map(|(group, untouched)| group.items * (1.0 - untouched)).sum()
        };
        let (untouched, absent_keys) = (through.items.untouched(time), through.absent_keys.untouched(time));
        Touching {
            hits: touched(&untouched),
            misses: touched(&absent_keys),
            scans: self.listed(time),
            untouched,
            absent_keys,
        }
    }
}

impl PageClass {
    fn per_page(&self) -> f64 {
        self.entries / self.pages
    }

    /// The share of its pages that nobody asked for, for any of so many entries or in vain.
    fn untouched(&self, entries: f64, touching: &Touching) -> f64 {
        let items = self.found.iter().zip(&touching.untouched);
        let asked: f64 = items.map(|(found, untouched)| found * (1.0 - untouched)).sum();
        let alone = (1.0 - asked / self.entries.max(1.0)).clamp(0.0, 1.0);
        let in_vain = self.vain_by_hit * touching.hits
            + self.vain_by_miss * touching.misses
            + self.by_scan * touching.scans;
        alone.powf(entries) * (-in_vain / self.pages).exp()
    }
}
