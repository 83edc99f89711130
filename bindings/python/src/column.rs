//! Bytes that Python hands in: one value, or a column of them.
//!
//! A column is a list of `bytes`, a NumPy array, or anything with Arrow's PyCapsule interface. It lends its
//! items as slices while the interpreter lock is released. That is sound since nobody can change them
//! meanwhile: `bytes` and Arrow's buffers never change, and each item is held on its own, so that a list may;
//! what can change (`bytearray`, NumPy's arrays) is copied.

use crate::arrow::{self, ArrowColumn};
use crate::error;
use numpy::{PyArray2, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use std::ops::Deref;

/// One key or value.
pub enum Bytes {
    Held(PyBackedBytes),
    Copied(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Held(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl FromPyObject<'_, '_> for Bytes {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::Held(bytes.to_owned().into())),
            Err(_) => copied(&given).map(Self::Copied),
        }
    }
}

/// Copies what is not `bytes` and can be read as such.
#[cold]
fn copied(given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(array) = given.cast::<PyByteArray>() {
        return Ok(array.to_vec());
    }
    let is_text = given.is_instance_of::<PyString>();
    if !is_text && let Ok(view) = PyMemoryView::from(given) {
        return Ok(view.call_method0("tobytes")?.cast_into::<PyBytes>()?.as_bytes().to_vec());
    }
    let advice =
        if is_text { "; encode it, or name a codec: keyspace(…, key=\"str\", value=\"str\")" } else { "" };
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!("keys and values are bytes, not {kind}{advice}")))
}

/// Many keys or values.
pub enum Column {
    Held(Vec<Bytes>),
    Arrow(Vec<ArrowColumn>),
    /// Rows of one length, one behind the other.
    Rows {
        bytes: Vec<u8>,
        row_bytes: usize,
        rows: usize,
    },
}

impl FromPyObject<'_, '_> for Column {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(list) = given.cast::<PyList>() {
            return list.iter().map(|item| item.extract()).collect::<PyResult<_>>().map(Self::Held);
        }
        if let Ok(tuple) = given.cast::<PyTuple>() {
            return tuple.iter().map(|item| item.extract()).collect::<PyResult<_>>().map(Self::Held);
        }
        if given.cast::<PyBytes>().is_ok() || given.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("give a list of keys or values, not a single one"));
        }
        if let Some(columns) = arrow::columns_of(&given)? {
            return Ok(Self::Arrow(columns));
        }
        if given.hasattr("__array_interface__")? {
            return Self::of_array(&given);
        }
        given.try_iter()?.map(|item| item?.extract()).collect::<PyResult<_>>().map(Self::Held)
    }
}

impl Column {
    /// Takes the rows of a NumPy array.
    fn of_array(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = array.py().import("siltstone._arrays")?.getattr("rows_of")?.call1((array,))?;
        let Ok(rows) = rows.cast::<PyArray2<u8>>() else {
            return rows.extract();
        };
        let rows = rows.readonly();
        let shape = rows.as_array().shape().to_vec();
        let [count, width] = shape.as_slice() else {
            return Err(error::invalid("the array has to have one row for each item"));
        };
        Ok(Self::Rows { bytes: rows.as_slice()?.to_vec(), row_bytes: *width, rows: *count })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Held(items) => items.len(),
            Self::Arrow(columns) => columns.iter().map(ArrowColumn::len).sum(),
            Self::Rows { rows, .. } => *rows,
        }
    }

    /// Lends all items.
    ///
    /// # Errors
    /// `InvalidInputError` where an item is null.
    pub fn slices(&self) -> PyResult<Vec<&[u8]>> {
        match self {
            Self::Held(items) => Ok(items.iter().map(|item| &**item).collect()),
            Self::Arrow(columns) => {
                let mut slices = Vec::with_capacity(self.len());
                columns.iter().try_for_each(|column| column.add_slices(&mut slices))?;
                Ok(slices)
            }
            Self::Rows { row_bytes: 0, rows, .. } => Ok(vec![&[]; *rows]),
            Self::Rows { bytes, row_bytes, .. } => Ok(bytes.chunks_exact(*row_bytes).collect()),
        }
    }
}

/// Lends the items of two columns that belong together.
///
/// # Errors
/// `InvalidInputError` where they differ in length.
pub fn zipped<'a>(keys: &'a Column, values: &'a Column) -> PyResult<Vec<(&'a [u8], &'a [u8])>> {
    if keys.len() != values.len() {
        let (keys, values) = (keys.len(), values.len());
        return Err(error::invalid(format!(
            "there are {keys} keys and {values} values; give as many of each"
        )));
    }
    Ok(keys.slices()?.into_iter().zip(values.slices()?).collect())
}
