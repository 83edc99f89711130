//! Drawing a chart with plotters: title, grid, axes, series, and the legend to the right of it all.

use super::scale::Scale;
use super::{Chart, Five, Marks, Series};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 480;
const LEGEND_WIDTH: u32 = 210;
/// Room for names at the left.
const NAMES_WIDTH: u32 = 230;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Okabe and Ito's colours, the faint yellow left out.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];
/// Lines of more points than this get no markers.
const MARKED: usize = 24;

type Outcome<T = ()> = Result<T, String>;
type Area<'a, 's> = DrawingArea<SVGBackend<'s>, Shift>;
type Plot<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Scale, Scale>>;

/// The chart as SVG, or why there is none.
pub fn svg(chart: &Chart) -> Outcome<String> {
    let (Some(xs), Some(ys)) =
        (chart.extent(&chart.x, |point| point.0), chart.extent(&chart.y, |point| point.1))
    else {
        return Err("it has no value that could be drawn".to_owned());
    };
    let x = Scale::new(&chart.x, xs, chart.has_bars() && chart.is_sideways());
    let y = Scale::new(&chart.y, ys, chart.has_bars() && !chart.is_sideways());
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE).map_err(said)?;
        let (main, legend) = root.split_horizontally(WIDTH - LEGEND_WIDTH);
        let mut plot = axes(chart, &main, x.clone(), y.clone())?;
        let groups = chart.series.iter().filter(|series| is_bar(series)).count();
        let mut bars = Bars { group: 0, groups, sideways: chart.is_sideways() };
        for series in &chart.series {
            draw(&mut plot, series, (&x, &y), bars)?;
            bars.group += usize::from(is_bar(series));
        }
        names(chart, &legend)?;
        root.present().map_err(said)?;
    }
    Ok(text)
}

/// Which series of bars is drawn, of how many, and whether they lie.
#[derive(Clone, Copy)]
struct Bars {
    group: usize,
    groups: usize,
    sideways: bool,
}

fn is_bar(series: &Series) -> bool {
    matches!(series.marks, Marks::Bars(_))
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn axes<'a, 's>(chart: &Chart, main: &'a Area<'a, 's>, x: Scale, y: Scale) -> Outcome<Plot<'a, 's>> {
    let style = |size: i32| (FONT, size).into_font().color(&INK);
    let centre = Pos::new(HPos::Center, VPos::Center);
    let (width, height) = main.dim_in_pixel();
    let (middle, low) = (width as i32 / 2 + 30, height as i32 - 14);
    main.draw_text(&chart.title, &style(19).pos(centre), (middle, 20)).map_err(said)?;
    main.draw_text(&chart.note, &style(12).pos(centre), (middle, low)).map_err(said)?;
    let mut plot = ChartBuilder::on(main)
        .margin_top(42)
        .margin_left(10)
        .margin_right(18)
        .margin_bottom(30)
        .x_label_area_size(44)
        .y_label_area_size(if chart.is_sideways() { NAMES_WIDTH } else { 66 })
        .build_cartesian_2d(x, y)
        .map_err(said)?;
    plot.configure_mesh()
        .x_desc(&chart.x.title)
        .y_desc(&chart.y.title)
        .axis_desc_style(style(14))
        .label_style(style(13))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .x_labels(8)
        .y_labels(8)
        .draw()
        .map_err(said)?;
    Ok(plot)
}

fn colour(series: &Series) -> RGBColor {
    COLOURS.get(series.colour % COLOURS.len()).copied().unwrap_or(INK)
}

fn draw(plot: &mut Plot, series: &Series, (x, y): (&Scale, &Scale), bars: Bars) -> Outcome {
    let paint = colour(series);
    let drawable = |points: &[(f64, f64)]| {
        points.iter().copied().filter(|p| x.holds(p.0) && y.holds(p.1)).collect::<Vec<_>>()
    };
    match &series.marks {
        Marks::Line(points) => {
            let points = drawable(points);
            if points.len() <= MARKED {
                dots(plot, &points, paint.filled(), 3)?;
            }
            plot.draw_series(LineSeries::new(points, paint.stroke_width(2))).map_err(said)?;
        }
        Marks::Dashes(points) => {
            let line = DashedLineSeries::new(drawable(points), 6, 4, paint.stroke_width(2));
            plot.draw_series(line).map_err(said)?;
        }
        Marks::Steps(points) => {
            plot.draw_series(LineSeries::new(stepped(&drawable(points)), paint.stroke_width(2)))
                .map_err(said)?;
        }
        Marks::Points(points) => dots(plot, &drawable(points), paint.filled(), 4)?,
        Marks::Hollow(points) => {
            // On a bar of its own colour a ring shows by its white rim.
            dots(plot, &drawable(points), WHITE.stroke_width(5), 6)?;
            dots(plot, &drawable(points), paint.stroke_width(2), 6)?;
        }
        Marks::Bars(values) => bar_group(plot, values, paint, if bars.sideways { x } else { y }, bars)?,
        Marks::Boxes(boxes) => {
            for (at, five) in boxes.iter().enumerate() {
                whiskers(plot, at as f64, five, paint)?;
            }
        }
    }
    Ok(())
}

fn dots(plot: &mut Plot, points: &[(f64, f64)], style: ShapeStyle, radius: i32) -> Outcome {
    plot.draw_series(points.iter().map(|point| Circle::new(*point, radius, style))).map_err(said)?;
    Ok(())
}

fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps = Vec::new();
    let mut height = None;
    for &(x, y) in points {
        if let Some(before) = height {
            steps.push((x, before));
        }
        steps.push((x, y));
        height = Some(y);
    }
    steps
}

fn bar_group(plot: &mut Plot, values: &[f64], paint: RGBColor, scale: &Scale, bars: Bars) -> Outcome {
    // Bars of one name share four fifths of its place.
    let width = 0.8 / bars.groups.max(1) as f64;
    let foot = scale.from().max(if scale.holds(0.0) { 0.0 } else { scale.from() });
    let drawable = values.iter().enumerate().filter(|(_, value)| scale.holds(**value));
    let drawn = drawable.map(|(at, value)| {
        let first = at as f64 - 0.4 + bars.group as f64 * width;
        let corners = [(first, foot), (first + width * 0.94, *value)];
        let corners = if bars.sideways { corners.map(|(place, value)| (value, place)) } else { corners };
        Rectangle::new(corners, paint.filled())
    });
    plot.draw_series(drawn).map_err(said)?;
    Ok(())
}

fn whiskers(plot: &mut Plot, at: f64, five: &Five, paint: RGBColor) -> Outcome {
    let (thin, thick) = (paint.stroke_width(1), paint.stroke_width(2));
    let line = |from, to, style| PathElement::new(vec![from, to], style);
    plot.draw_series([
        line((at, five.low), (at, five.lower), thin),
        line((at, five.upper), (at, five.high), thin),
        line((at - 0.12, five.low), (at + 0.12, five.low), thin),
        line((at - 0.12, five.high), (at + 0.12, five.high), thin),
        line((at - 0.25, five.median), (at + 0.25, five.median), thick),
    ])
    .map_err(said)?;
    plot.draw_series([Rectangle::new([(at - 0.25, five.lower), (at + 0.25, five.upper)], thick)])
        .map_err(said)?;
    Ok(())
}

/// The legend: a sample of each series and its name, from the top down.
fn names(chart: &Chart, area: &Area) -> Outcome {
    let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    // Bars that lie are piled from the bottom up, and named in the order in which they are seen.
    let upwards = chart.series.iter().rev().filter(|_| chart.is_sideways());
    let downwards = chart.series.iter().filter(|_| !chart.is_sideways());
    for (number, series) in upwards.chain(downwards).enumerate() {
        let (height, paint) = (54 + 22 * number as i32, colour(series));
        let line = |width| PathElement::new(vec![(4, height), (28, height)], paint.stroke_width(width));
        match series.marks {
            Marks::Line(_) | Marks::Steps(_) => {
                area.draw(&line(2)).map_err(said)?;
                if matches!(series.marks, Marks::Line(_)) {
                    area.draw(&Circle::new((16, height), 3, paint.filled())).map_err(said)?;
                }
            }
            Marks::Dashes(_) => {
                for left in [4, 14, 24] {
                    let dash =
                        PathElement::new(vec![(left, height), (left + 6, height)], paint.stroke_width(2));
                    area.draw(&dash).map_err(said)?;
                }
            }
            Marks::Points(_) => area.draw(&Circle::new((16, height), 4, paint.filled())).map_err(said)?,
            Marks::Hollow(_) => {
                area.draw(&Circle::new((16, height), 6, paint.stroke_width(2))).map_err(said)?
            }
            Marks::Bars(_) => {
                area.draw(&Rectangle::new([(8, height - 6), (24, height + 6)], paint.filled()))
                    .map_err(said)?;
            }
            Marks::Boxes(_) => {
                area.draw(&Rectangle::new([(8, height - 6), (24, height + 6)], paint.stroke_width(2)))
                    .map_err(said)?;
            }
        }
        area.draw_text(&series.name, &style, (36, height)).map_err(said)?;
    }
    Ok(())
}
