//! Bulk builds of what Python yields: pairs of bytes, pairs of columns, or Arrow's record batches.
//!
//! The engine takes items one by one, in the calling thread, without the interpreter lock. The lock is taken
//! for each chunk: one record batch, one pair of columns, or as many pairs of bytes as fit.

use crate::arrow::{self, ArrowColumn};
use crate::column::{Bytes, Column};
use crate::error::{self, Failure, OrRaise};
use arrow_array::ffi_stream::ArrayStreamReader;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple};
use siltstone::{Ingest, IngestOptions, IngestReport, Keyspace};
use std::time::Duration;

/// Pairs that are taken from Python at a time, and their bytes.
const PAIRS: usize = 2048;
const PAIR_BYTES: usize = 1 << 20;

/// The columns of record batches that hold keys and values.
pub struct Names {
    pub key: String,
    pub value: String,
}

/// Who is told how many items have been given so far.
pub struct Progress {
    tell: Py<PyAny>,
}

impl Progress {
    pub fn new(tell: Py<PyAny>) -> Self {
        Self { tell }
    }
}

/// What one chunk holds.
enum Chunk {
    Pairs(Vec<(Bytes, Bytes)>),
    Columns(Column, Column),
}

impl Chunk {
    fn items(&self) -> PyResult<Vec<(&[u8], &[u8])>> {
        match self {
            Self::Pairs(pairs) => Ok(pairs.iter().map(|(key, value)| (&**key, &**value)).collect()),
            Self::Columns(keys, values) => crate::column::zipped(keys, values),
        }
    }
}

/// Where chunks come from.
enum Chunks {
    Stream(ArrayStreamReader),
    /// An iterator, and what it yielded that is not a pair of bytes while pairs were gathered.
    Iterator {
        iterator: Py<PyIterator>,
        put_back: Option<Py<PyAny>>,
    },
}

impl Chunks {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if given.hasattr("__arrow_c_stream__")? {
            return arrow::stream_of(given).map(Self::Stream);
        }
        let iterator = if arrow::is_arrow(given)? {
            PyTuple::new(given.py(), [given])?.try_iter()?
        } else {
            given.try_iter()?
        };
        Ok(Self::Iterator { iterator: iterator.unbind(), put_back: None })
    }

    fn next(&mut self, py: Python<'_>, names: &Names) -> PyResult<Option<Chunk>> {
        let (iterator, put_back) = match self {
            Self::Stream(stream) => {
                let batch = arrow::next_of(py, stream)?;
                return batch
                    .map(|batch| columns(arrow::items_of(&batch, &names.key, &names.value)?))
                    .transpose();
            }
            Self::Iterator { iterator, put_back } => (iterator, put_back),
        };
        let mut iterator = iterator.bind(py).clone();
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        while pairs.len() < PAIRS && bytes < PAIR_BYTES {
            let next = match put_back.take() {
                Some(next) => next.into_bound(py),
                None => match iterator.next().transpose()? {
                    Some(next) => next,
                    None => break,
                },
            };
            if let Some((key, value)) = pair_of_bytes(&next)? {
                bytes += key.len() + value.len();
                pairs.push((key, value));
            } else if pairs.is_empty() {
                return chunk_of(&next, names).map(Some);
            } else {
                *put_back = Some(next.unbind());
                break;
            }
        }
        Ok((!pairs.is_empty()).then_some(Chunk::Pairs(pairs)))
    }
}

fn columns((keys, values): (ArrowColumn, ArrowColumn)) -> PyResult<Chunk> {
    Ok(Chunk::Columns(Column::Arrow(vec![keys]), Column::Arrow(vec![values])))
}

/// Takes a pair whose key is bytes.
fn pair_of_bytes(given: &Bound<'_, PyAny>) -> PyResult<Option<(Bytes, Bytes)>> {
    let Ok(pair) = given.cast::<PyTuple>() else { return Ok(None) };
    if pair.len() != 2 {
        return Err(error::invalid(format!("an item is a pair of key and value, not {} things", pair.len())));
    }
    let key = pair.get_item(0)?;
    let is_column = key.hasattr("__arrow_c_array__")?
        || key.hasattr("__arrow_c_stream__")?
        || key.hasattr("__array_interface__")?
        || key.is_instance_of::<pyo3::types::PyList>();
    if is_column {
        return Ok(None);
    }
    Ok(Some((key.extract()?, pair.get_item(1)?.extract()?)))
}

/// Takes a record batch, or a pair of columns.
fn chunk_of(given: &Bound<'_, PyAny>, names: &Names) -> PyResult<Chunk> {
    if given.hasattr("__arrow_c_array__")? {
        return columns(arrow::items_of(&arrow::array_of(given)?, &names.key, &names.value)?);
    }
    let Ok(pair) = given.cast::<PyTuple>() else {
        return Err(error::invalid(
            "items are pairs of key and value, pairs of columns of them, or Arrow record batches",
        ));
    };
    Ok(Chunk::Columns(pair.get_item(0)?.extract()?, pair.get_item(1)?.extract()?))
}

fn put(ingest: &mut Ingest<'_>, items: &[(&[u8], &[u8])], ttl: Option<Duration>) -> siltstone::Result<()> {
    items.iter().try_for_each(|(key, value)| match ttl {
        Some(ttl) => ingest.put_with_ttl(key, value, ttl),
        None => ingest.put(key, value),
    })
}

/// Gives all chunks to a build that has begun. Called without the interpreter lock.
fn give(
    ingest: &mut Ingest<'_>,
    chunks: &mut Chunks,
    names: &Names,
    ttl: Option<Duration>,
    progress: Option<&Progress>,
) -> Result<(), Failure> {
    let (mut given, mut last) = (0, None);
    loop {
        let chunk = Python::attach(|py| {
            drop(last.take());
            // A build takes long, and people press Ctrl-C.
            py.check_signals()?;
            if let Some(progress) = progress {
                progress.tell.bind(py).call1((given,))?;
            }
            chunks.next(py, names)
        })?;
        let Some(chunk) = chunk else { return Ok(()) };
        let items = chunk.items()?;
        put(ingest, &items, ttl)?;
        given += items.len();
        last = Some(chunk);
    }
}

/// Builds the tables of a keyspace.
pub fn build<'py>(
    py: Python<'py>,
    keyspace: &Keyspace,
    chunks: &Bound<'py, PyAny>,
    names: &Names,
    ttl: Option<Duration>,
    options: IngestOptions,
    progress: Option<Progress>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut chunks = Chunks::of(chunks)?;
    let report = py.detach(|| {
        keyspace.ingest_with(&options, |ingest| give(ingest, &mut chunks, names, ttl, progress.as_ref()))
    });
    let IngestReport { items, user_bytes, temporary_bytes, table_bytes, tables, entries, .. } =
        report.or_raise(py)?;
    let facts = PyDict::new(py);
    for (name, count) in [
        ("items", items),
        ("user_bytes", user_bytes),
        ("temporary_bytes", temporary_bytes),
        ("table_bytes", table_bytes),
        ("tables", tables),
        ("entries", entries),
    ] {
        facts.set_item(name, count)?;
    }
    Ok(facts)
}
