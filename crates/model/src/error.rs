//! The one error of this crate: a question that makes no sense, with the parameter that makes it so.

use std::fmt;

/// A parameter no model can work with.
///
/// Names the parameter as its field or flag is named, says what was given and what would do. The message is
/// meant for the person who gave the value.
///
/// ```
/// let error = siltstone_model::Popularity::uniform(0).unwrap_err();
/// assert_eq!(error.parameter(), "keys");
/// assert_eq!(error.to_string(), "keys: 0 given; there must be at least 1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelError {
    parameter: &'static str,
    message: String,
}

impl ModelError {
    /// An error about `parameter`; `message` says what was given and what would do.
    pub fn new(parameter: &'static str, message: impl Into<String>) -> Self {
        Self { parameter, message: message.into() }
    }

    /// The parameter at fault.
    pub fn parameter(&self) -> &'static str {
        self.parameter
    }

    /// What was given and what would do, without the parameter's name.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// `value` if it is finite and above zero.
    pub fn positive(parameter: &'static str, value: f64) -> Result<f64, Self> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(Self::new(parameter, format!("{value} given; it must be above 0 and finite")))
    }

    /// `value` if it lies in `0..=1`.
    pub fn fraction(parameter: &'static str, value: f64) -> Result<f64, Self> {
        if (0.0..=1.0).contains(&value) {
            return Ok(value);
        }
        Err(Self::new(parameter, format!("{value} given; it must be a fraction from 0 to 1")))
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.parameter, self.message)
    }
}

impl std::error::Error for ModelError {}
