//! Charts as SVG in one house style: lines, points, bars and boxes over linear, logarithmic or named axes.
//!
//! A chart is described first and drawn by [`Chart::save`]. Every series has a name and stands in the legend
//! beside the chart, where it hides nothing; every axis has a title with its unit; what others printed is
//! drawn as hollow points in the colour of the series it is compared with. Colours are those of Okabe and
//! Ito, which people with any colour vision can tell apart, and lines differ in their markers too.
//!
//! ```ignore
//! Chart::new("Write amplification")
//!     .x(Axis::logarithmic("distinct keys"))
//!     .y(Axis::linear("bytes written per byte inserted").from(0.0))
//!     .line("model", points)
//!     .printed("printed", [(1e8, 25.82)])
//!     .note("100 million keys")
//!     .save(&path)?;
//!
//! Chart::new("Latency").x(Axis::named("", ["get", "put"])).y(Axis::logarithmic("µs"))
//!     .bars("p50", [12.0, 3.0]).bars("p99", [80.0, 11.0]).save(&path)?;
//! ```

mod draw;
mod scale;

use std::fmt;
use std::path::Path;

/// An axis: what it shows, and on which scale.
#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    kind: Kind,
    from: Option<f64>,
    to: Option<f64>,
}

#[derive(Clone, Debug)]
enum Kind {
    Linear,
    Logarithmic,
    Named(Vec<String>),
}

impl Axis {
    /// Equal distances for equal differences. The title says what is shown and in which unit.
    pub fn linear(title: &str) -> Self {
        Self { title: title.to_owned(), kind: Kind::Linear, from: None, to: None }
    }

    /// Equal distances for equal ratios; values of zero or less are not drawn.
    pub fn logarithmic(title: &str) -> Self {
        Self { kind: Kind::Logarithmic, ..Self::linear(title) }
    }

    /// A place per name; points, bars and boxes count them from 0.
    pub fn named<S: Into<String>>(title: &str, names: impl IntoIterator<Item = S>) -> Self {
        Self { kind: Kind::Named(names.into_iter().map(Into::into).collect()), ..Self::linear(title) }
    }

    /// Where the axis begins, instead of at the smallest value.
    pub fn from(mut self, value: f64) -> Self {
        self.from = Some(value);
        self
    }

    /// Where the axis ends, instead of at the largest value.
    pub fn to(mut self, value: f64) -> Self {
        self.to = Some(value);
        self
    }
}

/// Five numbers that stand for a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Five {
    /// Least, or a low percentile.
    pub low: f64,
    /// A quarter lies below.
    pub lower: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub upper: f64,
    /// Largest, or a high percentile.
    pub high: f64,
}

/// Why there is no chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartError(String);

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ChartError {}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    colour: usize,
    marks: Marks,
}

#[derive(Clone, Debug)]
enum Marks {
    Line(Vec<(f64, f64)>),
    Dashes(Vec<(f64, f64)>),
    Steps(Vec<(f64, f64)>),
    Points(Vec<(f64, f64)>),
    Hollow(Vec<(f64, f64)>),
    Bars(Vec<f64>),
    Boxes(Vec<Five>),
}

impl Marks {
    /// Every value, as points; bars and boxes stand at whole numbers.
    fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Line(points)
            | Self::Dashes(points)
            | Self::Steps(points)
            | Self::Points(points)
            | Self::Hollow(points) => points.clone(),
            Self::Bars(values) => values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect(),
            Self::Boxes(boxes) => boxes
                .iter()
                .enumerate()
                .flat_map(|(at, five)| [(at as f64, five.low), (at as f64, five.high)])
                .collect(),
        }
    }
}

/// A chart to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    note: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    colours: usize,
}

impl Chart {
    /// An empty chart.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            note: String::new(),
            x: Axis::linear(""),
            y: Axis::linear(""),
            series: Vec::new(),
            colours: 0,
        }
    }

    /// The horizontal axis.
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// The vertical axis.
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    /// A line below the chart: conditions, sources.
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    /// Points joined by a line, with a marker at each if there are few.
    pub fn line(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Marks::Line(points.into_iter().collect()))
    }

    /// A dashed line without markers, for limits and expectations.
    pub fn dashes(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Marks::Dashes(points.into_iter().collect()))
    }

    /// A line that keeps its height up to the next point.
    pub fn steps(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Marks::Steps(points.into_iter().collect()))
    }

    /// Points without a line.
    pub fn points(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.with(name, Marks::Points(points.into_iter().collect()))
    }

    /// What others printed: hollow points in the colour of the series before.
    pub fn printed(mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let colour = self.colours.saturating_sub(1);
        self.colours = self.colours.max(1);
        let marks = Marks::Hollow(points.into_iter().collect());
        self.series.push(Series { name: name.to_owned(), colour, marks });
        self
    }

    /// A bar per name of the axis that has names, which may be the vertical one; bars of several series stand
    /// side by side.
    pub fn bars(self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        self.with(name, Marks::Bars(values.into_iter().collect()))
    }

    /// A box with whiskers per name of the horizontal axis.
    pub fn boxes(self, name: &str, boxes: impl IntoIterator<Item = Five>) -> Self {
        self.with(name, Marks::Boxes(boxes.into_iter().collect()))
    }

    fn with(mut self, name: &str, marks: Marks) -> Self {
        let colour = self.colours;
        self.colours += 1;
        self.series.push(Series { name: name.to_owned(), colour, marks });
        self
    }

    /// The chart as the text of an SVG file.
    ///
    /// # Errors
    /// A chart without a single value to draw.
    pub fn svg(&self) -> Result<String, ChartError> {
        draw::svg(self).map_err(|why| ChartError(format!("cannot draw {:?}: {why}", self.title)))
    }

    /// Draws the chart into a file, replacing it.
    ///
    /// # Errors
    /// As [`Chart::svg`], or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ChartError> {
        std::fs::write(path, self.svg()?).map_err(|e| ChartError(format!("{}: {e}", path.display())))
    }

    /// The largest and smallest value on an axis.
    fn extent(&self, axis: &Axis, pick: impl Fn(&(f64, f64)) -> f64) -> Option<(f64, f64)> {
        let drawable = |value: &f64| value.is_finite() && (*value > 0.0 || !axis.is_logarithmic());
        let values: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| series.marks.points().into_iter().map(|point| self.placed(series, point)))
            .map(|point| pick(&point))
            .chain([axis.from, axis.to].into_iter().flatten())
            .filter(drawable)
            .collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least <= most).then_some((least, most))
    }

    fn has_bars(&self) -> bool {
        self.series.iter().any(|series| matches!(series.marks, Marks::Bars(_)))
    }

    /// Whether names stand at the left, so that bars lie.
    fn is_sideways(&self) -> bool {
        matches!(self.y.kind, Kind::Named(_))
    }

    /// A bar's place and value as a point of the chart.
    fn placed(&self, series: &Series, (x, y): (f64, f64)) -> (f64, f64) {
        if self.is_sideways() && matches!(series.marks, Marks::Bars(_)) { (y, x) } else { (x, y) }
    }
}

impl Axis {
    fn is_logarithmic(&self) -> bool {
        matches!(self.kind, Kind::Logarithmic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart::new("Write <amplification>")
            .x(Axis::logarithmic("keys"))
            .y(Axis::linear("bytes per byte").from(0.0))
            .note("a & b")
    }

    #[test]
    fn lines_axes_legend_and_printed_points_are_there() {
        let svg = chart()
            .line("ours", [(1e6, 12.9), (1e7, 19.3), (1e8, 25.8)])
            .printed("theirs", [(1e8, 25.82)])
            .svg()
            .unwrap();
        for text in [
            "Write &lt;amplification&gt;",
            "keys",
            "bytes per byte",
            "ours",
            "theirs",
            "a &amp; b",
            "1M",
            "100M",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("polyline") && svg.contains("circle"));
    }

    #[test]
    fn bars_and_boxes_stand_over_their_names() {
        let five = Five { low: 1.0, lower: 2.0, median: 3.0, upper: 4.0, high: 9.0 };
        let svg = Chart::new("t")
            .x(Axis::named("", ["get", "put"]))
            .y(Axis::linear("µs"))
            .bars("p50", [1.0, 2.0])
            .bars("p99", [3.0, 8.0])
            .boxes("all", [five, five])
            .svg()
            .unwrap();
        assert!(svg.contains("get") && svg.contains("put") && svg.matches("<rect").count() > 6);
    }

    #[test]
    fn bars_lie_where_names_stand_at_the_left() {
        let bars = |values| {
            Chart::new("t")
                .x(Axis::linear("KiB"))
                .y(Axis::named("", ["short", "a rather long name"]))
                .bars("b", values)
        };
        let svg = bars([10.0, 4000.0]).svg().unwrap();
        assert!(svg.contains("a rather long name") && svg.contains("4000"));
        // The background, two bars and the legend's sample.
        assert_eq!(svg.matches("<rect").count(), 4);
        assert_eq!(bars([10.0, f64::NAN]).svg().unwrap().matches("<rect").count(), 3);
    }

    #[test]
    fn nothing_to_draw_is_an_error_and_odd_values_are_not_drawn() {
        assert!(chart().svg().is_err());
        assert!(chart().line("none", [(0.0, 1.0), (f64::NAN, f64::INFINITY)]).svg().is_err());
        assert!(chart().line("some", [(0.0, 1.0), (10.0, f64::NAN), (10.0, 5.0)]).svg().is_ok());
        assert!(chart().line("one", [(10.0, 0.0)]).svg().is_ok());
        assert!(chart().line("vast", [(1e-300, -1e300), (1e300, 1e300)]).svg().is_ok());
    }
}
