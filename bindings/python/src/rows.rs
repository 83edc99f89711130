//! Values of one length as the rows of a NumPy array.
//!
//! The array's memory is filled while the interpreter lock is released. It is handed in as bytes, `uint8` of
//! shape (rows, bytes of a row), so that every type of numbers works; `_arrays.py` does that. Nobody else has
//! it yet.

use crate::column::Column;
use crate::error::{self, OrRaise};
use crate::reader::Source;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

/// Looks `keys` up and copies their values into the rows of `rows`, which stay as they are for those that
/// have none; `found` says which have one.
///
/// # Errors
/// `InvalidInputError` where a value has another length than a row.
pub fn read(
    source: &Source,
    keys: &Column,
    rows: &Bound<'_, PyArray2<u8>>,
    found: &Bound<'_, PyArray1<bool>>,
) -> PyResult<()> {
    let py = rows.py();
    let slices = keys.slices()?;
    let (mut rows, mut found) = (rows.try_readwrite()?, found.try_readwrite()?);
    let row_bytes = rows.as_array().ncols();
    let (rows, found) = (rows.as_slice_mut()?, found.as_slice_mut()?);
    if found.len() != slices.len() || rows.len() != slices.len() * row_bytes {
        return Err(error::invalid("the array has to have one row for each key"));
    }
    let mut unfit = None;
    py.detach(|| {
        source.multi_get_with(&slices, |number, value| {
            let row = rows.get_mut(number * row_bytes..(number + 1) * row_bytes);
            match (row, found.get_mut(number)) {
                (Some(row), Some(found)) if row.len() == value.len() => {
                    row.copy_from_slice(value);
                    *found = true;
                }
                _ => {
                    unfit.get_or_insert((number, value.len()));
                }
            }
        })
    })
    .or_raise(py)?;
    match unfit {
        None => Ok(()),
        Some((number, bytes)) => Err(error::invalid(format!(
            "the value of key {number} has {bytes} bytes, but a row of this dtype and dim has {row_bytes}"
        ))),
    }
}
