//! Reads from asynchronous code: tasks await values, and one thread reads those of many with one `multi_get`.
//!
//! Shows the pattern of docs/guide/async.md with nothing but the standard library. With Tokio or another
//! runtime the executor is the runtime's, and the rest stays as it is.
//!
//! `cargo run --release -p siltstone --example async_reads -- DIRECTORY`

use siltstone::{Db, Keyspace, KeyspaceOptions, Options};
use std::error::Error;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};

/// Most keys of one `multi_get`.
const AT_ONCE: usize = 256;

/// What a read gives; an error is that of the batch it was in.
type Outcome = Result<Option<Vec<u8>>, Arc<siltstone::Error>>;

/// A read under way: its outcome once there is one, and who waits for it.
#[derive(Default)]
struct Shared {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// A value that will be there once its batch has been read.
struct Pending(Arc<Mutex<Shared>>);

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

type Request = (Vec<u8>, Arc<Mutex<Shared>>);

/// Reads for tasks. Where several wait they are read together: the device is asked for all their pages at
/// once.
struct AsyncReader {
    requests: Sender<Request>,
    thread: JoinHandle<u64>,
}

impl AsyncReader {
    /// Starts the thread that reads `keyspace`.
    fn new(keyspace: Keyspace) -> Self {
        let (requests, received) = channel();
        Self { requests, thread: std::thread::spawn(move || read_batches(&keyspace, &received)) }
    }

    /// The value of `key`, for whoever awaits it.
    fn get(&self, key: &[u8]) -> Pending {
        let shared = Arc::new(Mutex::new(Shared::default()));
        if self.requests.send((key.to_vec(), Arc::clone(&shared))).is_err() {
            unreachable!("the thread reads for as long as this sends");
        }
        Pending(shared)
    }

    /// Ends the thread, and says how many batches it has read.
    fn close(self) -> u64 {
        drop(self.requests);
        self.thread.join().unwrap_or_default()
    }
}

/// Reads what is asked for, and whatever else has been asked for meanwhile along with it.
fn read_batches(keyspace: &Keyspace, requests: &Receiver<Request>) -> u64 {
    let mut batches = 0;
    while let Ok(first) = requests.recv() {
        let more = requests.try_iter().take(AT_ONCE - 1);
        let (keys, waiting): (Vec<_>, Vec<_>) = std::iter::once(first).chain(more).unzip();
        batches += 1;
        let outcomes: Vec<Outcome> = match keyspace.multi_get(&keys) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => {
                let error = Arc::new(error);
                keys.iter().map(|_| Err(Arc::clone(&error))).collect()
            }
        };
        for (outcome, shared) in outcomes.into_iter().zip(waiting) {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.outcome = Some(outcome);
            if let Some(waker) = shared.waker.take() {
                waker.wake();
            }
        }
    }
    batches
}

/// Wakes the thread that runs the tasks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

type Task<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The smallest executor that runs many tasks in one thread.
fn run_all<T>(mut tasks: Vec<Task<'_, T>>) -> Vec<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut outputs = Vec::new();
    while !tasks.is_empty() {
        tasks.retain_mut(|task| match task.as_mut().poll(&mut context) {
            Poll::Ready(output) => {
                outputs.push(output);
                false
            }
            Poll::Pending => true,
        });
        if !tasks.is_empty() {
            std::thread::park();
        }
    }
    outputs
}

/// What tasks may take along when a runtime moves them between threads.
fn is_send<T: Send>() {}

/// The item that a task has come to.
type Followed = Result<u32, Box<dyn Error>>;

/// A task as a service has them: it follows a reference from one item to another.
async fn follow(reader: &AsyncReader, number: u32) -> Followed {
    let link = reader.get(&number.to_be_bytes()).await?.ok_or("an item is missing")?;
    let next = u32::from_be_bytes(link.as_slice().try_into()?);
    let back = reader.get(&next.to_be_bytes()).await?.ok_or("what it refers to is missing")?;
    Ok(u32::from_be_bytes(back.as_slice().try_into()?))
}

/// Runs a thousand tasks that read twice each.
pub fn run(dir: &Path) -> Result<(), Box<dyn Error>> {
    const TASKS: u32 = 1_000;
    is_send::<(Db, Keyspace, siltstone::Snapshot, siltstone::Iter, siltstone::Transaction)>();
    let db = Db::open(dir, Options::default())?;
    let links = db.keyspace("links", KeyspaceOptions::default())?;
    // Each refers to another, which refers to a third.
    let refers_to = |number: u32| (number * 7 + 1) % TASKS;
    for number in 0..TASKS {
        links.put(number.to_be_bytes(), refers_to(number).to_be_bytes())?;
    }
    db.flush()?;
    let reader = AsyncReader::new(links.clone());
    let mut tasks: Vec<Task<'_, (u32, Followed)>> = Vec::new();
    for number in 0..TASKS {
        let reader = &reader;
        tasks.push(Box::pin(async move { (number, follow(reader, number).await) }));
    }
    let found = run_all(tasks);
    assert_eq!(found.len(), TASKS as usize);
    for (number, reached) in found {
        assert_eq!(reached?, refers_to(refers_to(number)));
    }
    let batches = reader.close();
    println!("{} reads of {TASKS} tasks in {batches} batches", 2 * TASKS);
    assert!(batches < u64::from(2 * TASKS), "reads were not gathered");
    drop(links);
    Ok(db.close()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("name a directory for the store")?;
    run(Path::new(&dir))
}
