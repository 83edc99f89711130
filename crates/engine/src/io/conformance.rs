//! One suite, three disks: whatever [`OsDisk`], [`DirectDisk`] and [`SimDisk`] all promise, they do alike,
//! bare and as stores use them, in a [`CheckedDisk`].

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::checked::CheckedDisk;
use super::direct::DirectDisk;
use super::os::OsDisk;
use super::reads::{MOST_AT_ONCE, Read, Reads, read_all};
use super::sim::SimDisk;
use super::{Access, Disk, File, HeldBy};

type Check = fn(&dyn Disk, &Path);

const CHECKS: &[(&str, Check)] = &[
    ("directories", directories),
    ("canonical_paths", canonical_paths),
    ("create_truncates", create_truncates),
    ("streamed_files_are_files", streamed_files_are_files),
    ("open_needs_a_file", open_needs_a_file),
    ("reads_and_writes", reads_and_writes),
    ("lengths", lengths),
    ("read_only_files", read_only_files),
    ("many_reads_at_once", many_reads_at_once),
    ("synced_bytes_read_like_others", synced_bytes_read_like_others),
    ("rename_replaces", rename_replaces),
    ("rename_corner_cases", rename_corner_cases),
    ("removed_files_stay_open", removed_files_stay_open),
    ("hard_links_share_bytes", hard_links_share_bytes),
    ("checkpoint_by_links", checkpoint_by_links),
    ("locks", locks),
    ("locks_follow_the_file", locks_follow_the_file),
    ("free_bytes", free_bytes),
];

#[test]
fn os_disk_reads_what_the_page_cache_has() {
    let dir = tempfile::tempdir().unwrap();
    const TMPFS: i64 = 0x0102_1994;
    if !cfg!(target_os = "linux") || rustix::fs::statfs(dir.path()).unwrap().f_type as i64 == TMPFS {
        println!("skipped: not every version of this file system reads without waiting");
        return;
    }
    let file = write(&OsDisk, &dir.path().join("file"), &[7; 5000]);
    let mut bytes = [0; 4096];
    assert!(file.read_cached_at(&mut bytes, 100) && bytes == [7; 4096]);
}

/// What a symbolic link leads to gets the second name.
#[cfg(unix)]
#[test]
fn os_disk_links_files_and_not_links() {
    let dir = tempfile::tempdir().unwrap();
    let [file, link, second] = ["file", "link", "second"].map(|name| dir.path().join(name));
    write(&OsDisk, &file, b"bytes");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    OsDisk.hard_link(&link, &second).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(std::fs::symlink_metadata(&second).unwrap().is_file());
    assert_eq!(contents(&OsDisk, &second), b"bytes");
}

#[test]
fn os_disk_conforms() {
    for (name, check) in CHECKS {
        println!("{name}");
        let dir = tempfile::tempdir().unwrap();
        check(&OsDisk, dir.path());
    }
}

#[test]
fn direct_disk_conforms() {
    for (name, check) in CHECKS {
        println!("{name}");
        let dir = tempfile::tempdir().unwrap();
        check(&DirectDisk::default(), dir.path());
    }
}

#[test]
fn sim_disk_conforms() {
    for (name, check) in CHECKS {
        println!("{name}");
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/tmp/root")).unwrap();
        check(&disk, Path::new("/tmp/root"));
    }
}

#[test]
fn checked_disks_conform() {
    for (name, check) in CHECKS {
        println!("{name}");
        let sim: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let disks: [Arc<dyn Disk>; 2] = [Arc::new(OsDisk), Arc::new(DirectDisk::default())];
        for disk in disks {
            let dir = tempfile::tempdir().unwrap();
            let checked = CheckedDisk::new(disk, dir.path());
            check(&checked, dir.path());
            assert!(!checked.poison().is_set(), "{name} leaves a store in doubt");
        }
        let root = Path::new("/tmp/root");
        sim.create_dir_all(root).unwrap();
        let checked = CheckedDisk::new(sim, root);
        check(&checked, root);
        assert!(!checked.poison().is_set(), "{name} leaves a store in doubt");
    }
}

fn contents(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    bytes(&disk.open(path, Access::Read).unwrap())
}

fn bytes(file: &Arc<dyn File>) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn canonical_paths(disk: &dyn Disk, root: &Path) {
    let dir = root.join("a/b");
    disk.create_dir_all(&dir).unwrap();
    let found = disk.canonical(&dir).unwrap();
    assert!(found.is_absolute());
    assert_eq!(disk.canonical(&root.join("a/./b")).unwrap(), found);
    assert_eq!(disk.canonical(&found).unwrap(), found);
    assert_ne!(disk.canonical(&root.join("a")).unwrap(), found);
    assert_eq!(kind(disk.canonical(&root.join("none"))), ErrorKind::NotFound);
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

fn directories(disk: &dyn Disk, root: &Path) {
    let deep = root.join("a/b");
    disk.create_dir_all(&deep).unwrap();
    disk.create_dir_all(&deep).unwrap();
    write(disk, &root.join("z"), b"");
    write(disk, &root.join("B"), b"");
    assert_eq!(disk.list(root).unwrap(), ["B", "a", "z"]);
    assert_eq!(disk.list(&root.join("a/./b/..")).unwrap(), ["b"]);
    assert!(disk.list(&deep).unwrap().is_empty());
    disk.sync_dir(root).unwrap();
    disk.sync_dir(&deep).unwrap();

    assert_eq!(kind(disk.list(&root.join("none"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.list(&root.join("z"))), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.sync_dir(&root.join("none"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.create(&root.join("none/file"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.create(&root.join("z/file"))), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.create(&root.join("a"))), ErrorKind::IsADirectory);
    for in_the_way in ["z", "z/below"] {
        assert_eq!(kind(disk.create_dir_all(&root.join(in_the_way))), ErrorKind::AlreadyExists);
    }
}

fn create_truncates(disk: &dyn Disk, root: &Path) {
    let path = root.join("file");
    let old = write(disk, &path, b"old bytes");
    let new = disk.create(&path).unwrap();
    assert!(new.is_empty().unwrap());
    assert!(old.is_empty().unwrap(), "the same file, not a new one under the old name");
    new.write_all_at(b"new", 0).unwrap();
    assert_eq!(bytes(&new), b"new");
    assert_eq!(bytes(&old), b"new");
}

type Create = fn(&dyn Disk, &Path) -> io::Result<Arc<dyn File>>;

fn streamed_files_are_files(disk: &dyn Disk, root: &Path) {
    let creates: [Create; 2] =
        [|disk, path| disk.create_streamed(path), |disk, path| disk.create_uncached(path)];
    for create in creates {
        is_a_file(disk, root, create);
    }
}

fn is_a_file(disk: &dyn Disk, root: &Path, create: Create) {
    let path = root.join("table");
    write(disk, &path, &[1; 5000]);
    let file = create(disk, &path).unwrap();
    assert!(file.is_empty().unwrap());
    // A stretch of several buffers, one that ends within a page, one that starts there, and a page written
    // again.
    let pattern: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let mut at = 0;
    for bytes in [2_400_256, 5_000, 4_096, 100_000] {
        file.write_all_at(&pattern[at..at + bytes], at as u64).unwrap();
        at += bytes;
    }
    let mut pages = vec![0; 1 << 20];
    file.read_exact_at(&mut pages, 4096).unwrap();
    assert_eq!(pages, pattern[4096..4096 + (1 << 20)]);
    file.write_all_at(&[7; 4096], 8192).unwrap();
    let mut expected = pattern[..at].to_vec();
    expected[8192..12_288].fill(7);
    assert_eq!(bytes(&file), expected);
    assert_eq!(contents(disk, &path), expected);
    file.sync().unwrap();
    assert_eq!(contents(disk, &path), expected);
    assert_eq!(file.len().unwrap(), at as u64);
    assert_eq!(kind(create(disk, &root.join("none/file"))), ErrorKind::NotFound);
}

fn open_needs_a_file(disk: &dyn Disk, root: &Path) {
    for access in [Access::Read, Access::ReadWrite] {
        assert_eq!(kind(disk.open(&root.join("none"), access)), ErrorKind::NotFound);
    }
    assert_eq!(kind(disk.remove(&root.join("none"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename(&root.join("none"), &root.join("to"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.hard_link(&root.join("none"), &root.join("to"))), ErrorKind::NotFound);
    assert!(disk.list(root).unwrap().is_empty());
}

fn reads_and_writes(disk: &dyn Disk, root: &Path) {
    let file = write(disk, &root.join("cached"), b"0123456789");
    let mut four = [0; 4];
    assert!(!file.read_cached_at(&mut four, 3) || four == *b"3456");
    assert!(!file.read_cached_at(&mut four, 8), "more than there is");
    let file = disk.create(&root.join("file")).unwrap();
    let pattern: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
    // Offsets about the simulated disk's chunk size, and a hole at the front.
    file.write_all_at(&pattern, 4095).unwrap();
    assert_eq!(file.len().unwrap(), 24_095);
    let mut all = bytes(&file);
    assert_eq!(all.split_off(4095), pattern);
    assert!(all.iter().all(|byte| *byte == 0), "a hole reads as zeros");

    let mut part = [0; 5];
    file.read_exact_at(&mut part, 4094).unwrap();
    assert_eq!(part, [0, 0, 1, 2, 3]);
    file.write_all_at(&[9, 9], 4096).unwrap();
    file.read_exact_at(&mut part, 4094).unwrap();
    assert_eq!(part, [0, 0, 9, 9, 3]);

    assert_eq!(kind(file.read_exact_at(&mut part, 24_091)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(file.read_exact_at(&mut part, 1 << 30)), ErrorKind::UnexpectedEof);
    file.read_exact_at(&mut part, 24_090).unwrap();
    file.read_exact_at(&mut [], 1 << 30).unwrap();
    file.write_all_at(&[], 1 << 30).unwrap();
    assert_eq!(file.len().unwrap(), 24_095);
    file.sync().unwrap();
}

fn lengths(disk: &dyn Disk, root: &Path) {
    let file = write(disk, &root.join("file"), &[7; 10_000]);
    file.set_len(5_000).unwrap();
    file.set_len(9_000).unwrap();
    let all = bytes(&file);
    assert_eq!(all.len(), 9_000);
    assert!(all[..5_000].iter().all(|byte| *byte == 7));
    assert!(all[5_000..].iter().all(|byte| *byte == 0), "bytes once cut off do not come back");
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
    file.sync().unwrap();
}

fn read_only_files(disk: &dyn Disk, root: &Path) {
    let path = root.join("file");
    write(disk, &path, b"bytes");
    let file = disk.open(&path, Access::Read).unwrap();
    assert!(file.write_all_at(b"x", 0).is_err());
    assert!(file.set_len(0).is_err());
    assert_eq!(contents(disk, &path), b"bytes");
    let file = disk.open(&path, Access::ReadWrite).unwrap();
    file.write_all_at(b"B", 0).unwrap();
    assert_eq!(contents(disk, &path), b"Bytes");
}

fn rename_replaces(disk: &dyn Disk, root: &Path) {
    let (from, to) = (root.join("CURRENT.tmp"), root.join("CURRENT"));
    let old = write(disk, &to, b"old");
    let new = write(disk, &from, b"new");
    disk.rename(&from, &to).unwrap();
    assert_eq!(disk.list(root).unwrap(), ["CURRENT"]);
    assert_eq!(contents(disk, &to), b"new");
    assert_eq!(bytes(&old), b"old");
    new.write_all_at(b"er", 3).unwrap();
    assert_eq!(contents(disk, &to), b"newer");
}

fn rename_corner_cases(disk: &dyn Disk, root: &Path) {
    let (one, two) = (root.join("one"), root.join("two"));
    write(disk, &one, b"1");
    disk.rename(&one, &one).unwrap();
    disk.hard_link(&one, &two).unwrap();
    disk.rename(&one, &two).unwrap();
    assert_eq!(disk.list(root).unwrap(), ["one", "two"], "two names of one file both stay");
    disk.create_dir_all(&root.join("dir")).unwrap();
    assert_eq!(kind(disk.rename(&one, &root.join("dir"))), ErrorKind::IsADirectory);
    disk.rename(&one, &root.join("dir/one")).unwrap();
    assert_eq!(disk.list(root).unwrap(), ["dir", "two"]);
    assert_eq!(contents(disk, &root.join("dir/one")), b"1");
    assert_eq!(kind(disk.rename(&two, &root.join("none/two"))), ErrorKind::NotFound);
}

fn removed_files_stay_open(disk: &dyn Disk, root: &Path) {
    let path = root.join("file");
    let file = write(disk, &path, b"still here");
    disk.remove(&path).unwrap();
    disk.sync_dir(root).unwrap();
    assert_eq!(kind(disk.open(&path, Access::Read)), ErrorKind::NotFound);
    assert_eq!(bytes(&file), b"still here");
    file.write_all_at(b"S", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(bytes(&file), b"Still here");
    let other = write(disk, &path, b"another");
    assert_eq!(bytes(&file), b"Still here");
    assert_eq!(bytes(&other), b"another");
}

fn hard_links_share_bytes(disk: &dyn Disk, root: &Path) {
    let (one, two) = (root.join("one"), root.join("two"));
    let file = write(disk, &one, b"abc");
    disk.hard_link(&one, &two).unwrap();
    file.write_all_at(b"A", 0).unwrap();
    assert_eq!(contents(disk, &two), b"Abc");
    assert_eq!(kind(disk.hard_link(&one, &two)), ErrorKind::AlreadyExists);
    disk.remove(&one).unwrap();
    assert_eq!(contents(disk, &two), b"Abc");
}

fn checkpoint_by_links(disk: &dyn Disk, root: &Path) {
    let copy = root.join("checkpoint");
    disk.create_dir_all(&copy).unwrap();
    write(disk, &root.join("1.sst"), b"table");
    disk.hard_link(&root.join("1.sst"), &copy.join("1.sst")).unwrap();
    disk.sync_dir(&copy).unwrap();
    disk.remove(&root.join("1.sst")).unwrap();
    assert_eq!(contents(disk, &copy.join("1.sst")), b"table");
}

fn locks(disk: &dyn Disk, root: &Path) {
    let path = root.join("LOCK");
    write(disk, &path, b"a much longer text left by a dead process");
    let lock = disk.lock(&path, "process 1").unwrap();
    assert_eq!(contents(disk, &path), b"process 1");
    let error = disk.lock(&path, "process 2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let holder = error.get_ref().and_then(|inner| inner.downcast_ref::<HeldBy>()).expect("a holder");
    assert_eq!(holder.owner, "process 1");
    assert_eq!(contents(disk, &path), b"process 1");
    drop(lock);
    let _lock = disk.lock(&path, "process 2").unwrap();
    assert_eq!(contents(disk, &path), b"process 2");
    assert_eq!(kind(disk.lock(&root.join("none/LOCK"), "process 3")), ErrorKind::NotFound);
}

fn locks_follow_the_file(disk: &dyn Disk, root: &Path) {
    let path = root.join("LOCK");
    let first = disk.lock(&path, "1").unwrap();
    disk.remove(&path).unwrap();
    let second = disk.lock(&path, "2").unwrap();
    drop(first);
    assert_eq!(kind(disk.lock(&path, "3")), ErrorKind::WouldBlock);
    drop(second);
    disk.lock(&path, "3").unwrap();
}

fn free_bytes(disk: &dyn Disk, root: &Path) {
    assert!(disk.free_bytes(root).unwrap() > 0);
    assert_eq!(kind(disk.free_bytes(&root.join("none"))), ErrorKind::NotFound);
    assert!(disk.now_ms() > 1_600_000_000_000, "milliseconds since 1970");
}

/// Reads that are begun a few at a time, some only once others are done.
struct Script {
    files: [Arc<dyn File>; 2],
    begun: usize,
    under_way: usize,
    most_under_way: usize,
    results: Vec<(u64, Result<Vec<u8>, ErrorKind>)>,
    panics_at: usize,
}

impl Script {
    const READS: usize = 700;

    fn new(files: &[Arc<dyn File>; 2]) -> Self {
        let files = files.clone();
        Self { files, begun: 0, under_way: 0, most_under_way: 0, results: Vec::new(), panics_at: usize::MAX }
    }

    fn place(number: usize) -> (u64, usize) {
        ((number * 7919 % 60_000) as u64, [1, 100, 4096, 9000][number % 4])
    }
}

impl Reads for Script {
    type Buf = Vec<u8>;

    fn next(&mut self) -> Option<Read<Vec<u8>>> {
        // Now and then all that is under way has to be done before it goes on, or one more is begun alone.
        let waits = self.begun.is_multiple_of(97) && self.under_way > 0;
        if self.begun == Self::READS || waits {
            return None;
        }
        let (offset, length) = Self::place(self.begun);
        let file = Arc::clone(&self.files[self.begun % 2]);
        self.begun += 1;
        self.under_way += 1;
        self.most_under_way = self.most_under_way.max(self.under_way);
        Some(Read { file, offset, buf: vec![0; length] })
    }

    fn done(&mut self, read: Read<Vec<u8>>, outcome: io::Result<()>) {
        assert!(self.results.len() < self.panics_at, "a reader that gives up");
        self.under_way -= 1;
        self.results.push((read.offset, outcome.map(|()| read.buf).map_err(|error| error.kind())));
    }
}

/// Reads of all lengths and places, more of them than fit one submission, some of which fail.
/// Stretches of a file, all to be read at once.
struct Stretches {
    file: Arc<dyn File>,
    left: Vec<(usize, usize)>,
    results: Vec<(usize, usize, Option<Vec<u8>>)>,
}

impl Reads for Stretches {
    type Buf = Vec<u8>;

    fn next(&mut self) -> Option<Read<Vec<u8>>> {
        let (at, length) = self.left.pop()?;
        Some(Read { file: Arc::clone(&self.file), offset: at as u64, buf: vec![0; length] })
    }

    fn done(&mut self, read: Read<Vec<u8>>, outcome: io::Result<()>) {
        self.results.push((read.offset as usize, read.buf.len(), outcome.ok().map(|()| read.buf)));
    }
}

fn synced_bytes_read_like_others(disk: &dyn Disk, root: &Path) {
    let mut expected: Vec<u8> =
        (0..90_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let path = root.join("log");
    let created = disk.create(&path).unwrap();
    created.write_all_at(&expected[..40_000], 0).unwrap();
    created.sync().unwrap();
    created.write_all_at(&expected[40_000..], 40_000).unwrap();
    let reads_alike = |file: &Arc<dyn File>, expected: &[u8]| {
        let places: Vec<(usize, usize)> = (0..60).map(|n| (n * 7919 % 88_000, 1 + n * 331 % 9000)).collect();
        let mut stretches = Stretches { file: Arc::clone(file), left: places.clone(), results: Vec::new() };
        read_all(&mut stretches);
        assert_eq!(stretches.results.len(), places.len());
        for (at, length, read) in stretches.results {
            let bytes = expected.get(at..at + length);
            assert_eq!(read.as_deref(), bytes, "{length} bytes at {at}");
            let mut alone = vec![0; length];
            let is_read = file.read_exact_at(&mut alone, at as u64).is_ok();
            assert_eq!(is_read.then_some(alone.as_slice()), bytes, "{length} bytes at {at} alone");
        }
    };
    reads_alike(&created, &expected);
    created.sync().unwrap();
    reads_alike(&created, &expected);
    // By way of another opening, over what is synced.
    let opened = disk.open(&path, Access::ReadWrite).unwrap();
    expected[10_000..30_000].reverse();
    opened.write_all_at(&expected[10_000..30_000], 10_000).unwrap();
    for file in [&created, &opened] {
        reads_alike(file, &expected);
    }
    opened.sync().unwrap();
    reads_alike(&opened, &expected);
    opened.set_len(50_001).unwrap();
    expected.truncate(50_001);
    for file in [&created, &opened] {
        reads_alike(file, &expected);
    }
    opened.write_all_at(&[7; 100], 50_001).unwrap();
    expected.extend([7; 100]);
    reads_alike(&opened, &expected);
    opened.sync().unwrap();
    reads_alike(&opened, &expected);
}

fn many_reads_at_once(disk: &dyn Disk, root: &Path) {
    let bytes: Vec<u8> = (0..50_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    write(disk, &root.join("a"), &bytes);
    write(disk, &root.join("b"), &bytes[..8192]);
    let files = ["a", "b"].map(|name| disk.open(&root.join(name), Access::Read).unwrap());
    // A reader that panics leaves nothing behind that would trouble the next.
    for panics_at in [0, 1, 50] {
        let mut script = Script { panics_at, ..Script::new(&files) };
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read_all(&mut script)));
        assert!(panic.is_err());
    }
    let mut script = Script::new(&files);
    read_all(&mut script);
    assert_eq!((script.begun, script.under_way, script.results.len()), (Script::READS, 0, Script::READS));
    assert!((2..=MOST_AT_ONCE).contains(&script.most_under_way));
    let read = |number: usize| {
        let (offset, length) = Script::place(number);
        let contents = &bytes[..[50_000, 8192][number % 2]];
        let read = contents.get(offset as usize..offset as usize + length);
        (offset, read.map(<[u8]>::to_vec).ok_or(ErrorKind::UnexpectedEof))
    };
    let mut expected: Vec<_> = (0..Script::READS).map(read).collect();
    expected.sort();
    script.results.sort();
    assert!(script.results == expected);
}
