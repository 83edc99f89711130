//! The log written, rotated and replayed.

use super::*;
use crate::io::sim::{CallKind, SimDisk};
use crate::options::WalRecovery;

/// Records that were replayed, with their LSNs.
#[derive(Default)]
struct Collected(Vec<(u64, Vec<u8>)>);

impl Replaying for Collected {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        self.0.push((record.lsn, record.payload.to_vec()));
        Ok(())
    }
}

/// Pages of `path` of which a write was the first, and left a part as it was.
fn torn_pages(disk: &SimDisk, path: &Path, bytes: u64) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let mut torn = 0;
    for (call, _) in disk.take_recorded() {
        if call.kind != CallKind::Write || call.path != path {
            continue;
        }
        let end = call.offset + call.bytes;
        for page in call.offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let (from, to) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
            let is_whole = call.offset <= from && to <= end;
            torn += u64::from(seen.insert(page) && !is_whole && from < bytes);
        }
    }
    torn
}

#[test]
fn a_reused_segment_is_never_read_to_be_written() {
    let (disk, dir) = (SimDisk::new(), Path::new("/log"));
    disk.create_dir_all(dir).unwrap();
    let nothing = Replayed {
        end_lsn: 0,
        last_segment: 0,
        obsolete: Vec::new(),
        live: Vec::new(),
        is_damaged: false,
        manifest_end: ManifestEnd::default(),
    };
    let checked = CheckedDisk::new(Arc::new(disk.clone()), dir);
    let mut wal = Wal::start(Arc::new(checked), dir, &nothing, None).unwrap();
    let payloads = |round: usize| (0..200).map(move |at| vec![round as u8; at * 37 % 9_000]);
    let mut first_bytes = 0;
    for round in 0..3 {
        disk.record_images(true);
        let mut starts = Vec::new();
        for payload in payloads(round) {
            let crc = crc32c::crc32c(&payload);
            starts.push(wal.append(std::iter::once((payload.as_slice(), crc))).unwrap().1);
        }
        disk.record_images(false);
        let number = wal.segment().segment;
        let torn = torn_pages(&disk, &segment_path(dir, number), first_bytes);
        assert_eq!(torn, 0, "round {round}");
        if round == 0 {
            first_bytes = LOG_HEADER_BYTES + wal.segment_bytes();
        } else {
            assert!(wal.current.reused_bytes >= first_bytes, "round {round} writes over an old file");
        }
        let mut replayed = Collected::default();
        replay(&disk, dir, wal.segment(), 0, WalRecovery::Strict, &mut replayed).unwrap();
        let written: Vec<_> =
            starts.into_iter().zip(payloads(round)).filter(|(_, p)| !p.is_empty()).collect();
        assert_eq!(replayed.0, written, "round {round}");
        wal.rotate().unwrap();
        let gone = wal.retire_before(wal.segment().segment, 1 << 20);
        assert_eq!(gone, Vec::<PathBuf>::new());
        wal.rotate().unwrap();
        assert_eq!(wal.retire_before(wal.segment().segment, 1 << 20), Vec::<PathBuf>::new());
    }
}

#[test]
fn zeros_go_to_the_end_of_a_page_that_is_begun() {
    let reused = 100_000;
    assert_eq!(zeros_after(0, 1024, reused), 3072);
    assert_eq!(zeros_after(1024, 100, reused), 0);
    assert_eq!(zeros_after(1024, 3072, reused), 0);
    assert_eq!(zeros_after(4096, 1, reused), 4095);
    assert_eq!(zeros_after(4000, 97, reused), 4095);
    assert_eq!(zeros_after(4000, 9000, reused), 16_384 - 13_000);
    assert_eq!(zeros_after(4000, 9000, 12_000), 0);
    assert_eq!(zeros_after(0, 1024, 0), 0);
}
