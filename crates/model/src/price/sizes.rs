//! How large values are, where they are not all alike.

use crate::ModelError;
use serde::{Deserialize, Serialize};

/// Most sizes of a mixture.
const MOST_SIZES: usize = 8;

/// Values of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueSize {
    /// Bytes of a value.
    pub value_bytes: f64,
    /// The share of items whose values have this size, in any unit: only the proportions count.
    pub share: f64,
}

/// The sizes of values, as a mixture of a few; none where their mean is all that is known.
///
/// As JSON it is a list.
///
/// ```
/// use siltstone_model::price::{Sizes, Workload};
///
/// let sizes = r#"[{ "value_bytes": 100, "share": 9 }, { "value_bytes": 20000, "share": 1 }]"#;
/// let sizes: Sizes = serde_json::from_str(sizes)?;
/// assert_eq!(Workload { sizes, ..Workload::default() }.mean_value_bytes(), 2090.0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ValueSize>", into = "Vec<ValueSize>")]
pub struct Sizes {
    /// Those with a share of 0 are not there; the others come first, and their shares add up to 1.
    all: [ValueSize; MOST_SIZES],
}

impl Sizes {
    /// Returns a mixture of `sizes`.
    ///
    /// # Errors
    /// More than eight sizes, or a size or a share that makes no sense.
    pub fn new(sizes: &[ValueSize]) -> Result<Self, ModelError> {
        let refused = |what: String| Err(ModelError::new("sizes", what));
        if sizes.len() > MOST_SIZES {
            return refused(format!("{} given; give at most {MOST_SIZES}", sizes.len()));
        }
        for ValueSize { value_bytes, share } in sizes {
            if !(value_bytes.is_finite() && *value_bytes >= 0.0 && share.is_finite() && *share > 0.0) {
                let given = format!("a share of {share} with values of {value_bytes} bytes given");
                return refused(format!("{given}; shares are above 0, and bytes from 0 on"));
            }
        }
        let sum: f64 = sizes.iter().map(|size| size.share).sum();
        let mut all = [ValueSize::default(); MOST_SIZES];
        for (place, size) in all.iter_mut().zip(sizes) {
            *place = ValueSize { share: size.share / sum, ..*size };
        }
        Ok(Self { all })
    }

    /// Whether nothing is known beside the mean.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The sizes, whose shares add up to 1.
    pub fn iter(&self) -> impl Iterator<Item = ValueSize> {
        self.all.into_iter().take_while(|size| size.share > 0.0)
    }

    /// Bytes of a value on the average.
    pub fn mean_bytes(&self) -> f64 {
        self.iter().map(|size| size.share * size.value_bytes).sum()
    }
}

impl TryFrom<Vec<ValueSize>> for Sizes {
    type Error = ModelError;

    fn try_from(sizes: Vec<ValueSize>) -> Result<Self, ModelError> {
        Self::new(&sizes)
    }
}

impl From<Sizes> for Vec<ValueSize> {
    fn from(sizes: Sizes) -> Self {
        sizes.iter().collect()
    }
}
