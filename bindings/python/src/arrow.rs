//! Arrow's arrays in and out, by the PyCapsule interface: no library of Arrow for Python is needed.
//!
//! Source: the Arrow C data interface and its PyCapsule protocol. A producer hands over a capsule that owns a
//! structure; we move the structure out, which leaves it marked as released there.
//!
//! Items are those of binary and string arrays, of fixed-size binary ones, and of lists of a fixed number of
//! numbers, whose items are their numbers' bytes, as NumPy has them. Buffers are used where they lie.

use crate::error;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, LargeBinaryArray, StructArray, make_array};
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// An Arrow array of keys or of values, of any origin. It has `__arrow_c_array__`, so that
/// `pyarrow.array(column)` and the like take it without a copy.
#[pyclass(frozen, module = "siltstone")]
#[derive(Clone)]
pub struct ArrowColumn {
    array: ArrayRef,
}

#[pymethods]
impl ArrowColumn {
    fn __len__(&self) -> usize {
        self.len()
    }

    fn __repr__(&self) -> String {
        format!("<siltstone.ArrowColumn of {} items>", self.len())
    }

    /// Returns the column as two capsules of the Arrow C data interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A producer may leave requests for another type alone.
        drop(requested_schema);
        let (array, schema) = to_ffi(&self.array.to_data()).map_err(|e| error::invalid(e.to_string()))?;
        let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
        Ok((schema, PyCapsule::new_with_value(py, array, ARRAY)?))
    }
}

impl ArrowColumn {
    /// Makes a column of values, `None` where there is none.
    pub fn of_values<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Self {
        Self { array: Arc::new(LargeBinaryArray::from_iter(values)) }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Appends the items to `slices`.
    ///
    /// # Errors
    /// `InvalidInputError` where one is null.
    pub fn add_slices<'a>(&'a self, slices: &mut Vec<&'a [u8]>) -> PyResult<()> {
        let array = &self.array;
        if array.null_count() > 0 {
            let number = (0..array.len()).find(|number| array.is_null(*number)).unwrap_or(0);
            return Err(error::invalid(format!("item {number} is null; keys and values can't be")));
        }
        let count = array.len();
        match array.data_type() {
            DataType::Binary => slices.extend(array.as_binary::<i32>().iter().flatten()),
            DataType::LargeBinary => slices.extend(array.as_binary::<i64>().iter().flatten()),
            DataType::BinaryView => slices.extend(array.as_binary_view().iter().flatten()),
            DataType::Utf8 => slices.extend(array.as_string::<i32>().iter().flatten().map(str::as_bytes)),
            DataType::LargeUtf8 => {
                slices.extend(array.as_string::<i64>().iter().flatten().map(str::as_bytes));
            }
            DataType::Utf8View => slices.extend(array.as_string_view().iter().flatten().map(str::as_bytes)),
            DataType::FixedSizeBinary(0) => {
                slices.extend(std::iter::repeat_n(&[] as &[u8], count));
            }
            DataType::FixedSizeBinary(_) => slices.extend(array.as_fixed_size_binary().iter().flatten()),
            other => return Err(unfit(other)),
        }
        Ok(())
    }
}

/// Takes lists of a fixed number of numbers as fixed-size binary, which shares their buffer; other arrays as
/// they are.
fn normal(array: ArrayRef) -> PyResult<ArrayRef> {
    let Some(lists) = array.as_fixed_size_list_opt() else { return Ok(array) };
    let numbers = lists.values();
    let width = numbers.data_type().primitive_width().ok_or_else(|| unfit(array.data_type()))?;
    if numbers.null_count() > 0 {
        return Err(error::invalid("a list has a number that is null; values can't have any"));
    }
    let Ok(per_row) = usize::try_from(lists.value_length()) else { return Err(unfit(array.data_type())) };
    let data = numbers.to_data();
    let [buffer] = data.buffers() else { return Err(unfit(array.data_type())) };
    let row_bytes = i32::try_from(per_row * width).map_err(|e| error::invalid(e.to_string()))?;
    let buffer = buffer.slice_with_length(data.offset() * width, lists.len() * per_row * width);
    let rows = FixedSizeBinaryArray::try_new(row_bytes, buffer, lists.nulls().cloned());
    Ok(Arc::new(rows.map_err(|e| error::invalid(e.to_string()))?))
}

fn unfit(found: &DataType) -> PyErr {
    PyTypeError::new_err(format!(
        "Arrow columns of keys or values are binary, strings, fixed-size binary, or fixed-size lists of numbers, \
         not {found}; cast the column first"
    ))
}

/// Whether an object can hand out Arrow data.
pub fn is_arrow(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(given.hasattr("__arrow_c_array__")? || given.hasattr("__arrow_c_stream__")?)
}

/// Takes the columns, one behind the other, of an object with Arrow's PyCapsule interface; `None` of any
/// other.
pub fn columns_of(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<ArrowColumn>>> {
    if given.hasattr("__arrow_c_array__")? {
        return Ok(Some(vec![ArrowColumn { array: normal(array_of(given)?)? }]));
    }
    if !given.hasattr("__arrow_c_stream__")? {
        return Ok(None);
    }
    let mut stream = stream_of(given)?;
    let mut columns = Vec::new();
    while let Some(array) = next_of(given.py(), &mut stream)? {
        columns.push(ArrowColumn { array: normal(array)? });
    }
    Ok(Some(columns))
}

/// Takes the columns `key` and `value` of a record batch, or of an array of structures.
pub fn items_of(batch: &ArrayRef, key: &str, value: &str) -> PyResult<(ArrowColumn, ArrowColumn)> {
    let Some(structure) = batch.as_any().downcast_ref::<StructArray>() else {
        return Err(PyTypeError::new_err(
            "Arrow items are tables or record batches with a column of keys and one of values",
        ));
    };
    let column = |name: &str| match structure.column_by_name(name) {
        Some(array) => Ok(ArrowColumn { array: normal(Arc::clone(array))? }),
        None => {
            let there = structure.column_names().join(", ");
            Err(error::invalid(format!(
                "there is no column {name:?}; the columns are {there}; name them by key= and value="
            )))
        }
    };
    Ok((column(key)?, column(value)?))
}

/// Takes the array of an object with `__arrow_c_array__`.
pub fn array_of(given: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = given.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        capsules.cast::<PyTuple>()?.extract()?;
    let schema: NonNull<FFI_ArrowSchema> = schema.pointer_checked(Some(SCHEMA))?.cast();
    let array: NonNull<FFI_ArrowArray> = array.pointer_checked(Some(ARRAY))?.cast();
    // SAFETY: capsules of these names hold valid structures of the Arrow C data interface, which whoever
    // takes them may move out of; both live until the end of this function. What they describe, we have to
    // trust.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    data.map(make_array).map_err(|e| error::invalid(e.to_string()))
}

/// Takes the stream of an object with `__arrow_c_stream__`.
pub fn stream_of(given: &Bound<'_, PyAny>) -> PyResult<ArrayStreamReader> {
    let capsule = given.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream: NonNull<FFI_ArrowArrayStream> = capsule.pointer_checked(Some(STREAM))?.cast();
    // SAFETY: a capsule of this name holds a valid stream, which whoever takes it may move out of; the
    // capsule lives until the end of this function.
    let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(|e| error::invalid(e.to_string()))
}

/// Reads the next array of a stream, without the interpreter lock: its producer takes that where it needs it.
pub fn next_of(py: Python<'_>, stream: &mut ArrayStreamReader) -> PyResult<Option<ArrayRef>> {
    py.detach(|| stream.next()).transpose().map_err(|e| error::invalid(e.to_string()))
}
