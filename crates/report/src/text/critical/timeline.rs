//! The run from left to right: how many threads worked, and which code ran while they were few.

use convoy_analysis::scheduler::{Analysis, Moment};
use convoy_model::{GroupId, Model, SiteId};

use super::{nothing, remark};
use crate::human::{duration, few, percent};
use crate::sched_names;
use crate::text::page::{cell_right, plain, toned, Page, Tone};
use crate::text::table::INDENT;
use crate::Report;

/// Columns of the strip.
const COLUMNS: usize = 60;

/// Places that get a letter.
const PLACES: usize = 6;

/// A piece is idle if no thread was active for more than this share of it.
const IDLE: f64 = 0.5;

/// Less of the active threads than this at work: the others wait for one another in loops.
const SPINNING: f64 = 0.05;

/// A column of the strip: one piece of the run, or several.
#[derive(Debug, Clone, Default, PartialEq)]
struct Column {
    width_ns: u64,
    working: f64,
    idle: f64,
    spinning: bool,
    /// The place that ran while few threads did, if that is most of it.
    low: Option<usize>,
}

/// Code that ran while few threads did.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    group: Option<GroupId>,
    functions: Vec<String>,
    site: Option<SiteId>,
    ns: u64,
}

/// The section.
pub fn write(page: &mut Page, report: &Report<'_>, analysis: &Analysis) {
    let room = page.width().saturating_sub(2 * INDENT).min(COLUMNS);
    let low_below = analysis.parallelism.low_below;
    let (places, place_of) = places(report.model, &analysis.timeline, low_below);
    let columns = columns(&analysis.timeline, &place_of, room);
    let wall: u64 = columns.iter().map(|c| c.width_ns).sum();
    page.title("The run from left to right: mean number of working threads");
    if wall == 0 {
        nothing(page, "it was too short to be cut into pieces");
        return;
    }
    let top = columns.iter().map(|c| c.working).fold(0.0, f64::max);
    let scale = analysis.parallelism.useful.max(1.0);
    let height = |c: &Column| match page.unicode() {
        true => block(c.working / scale),
        false => digit(c.working),
    };
    let strip: String = columns.iter().map(height).collect();
    let marks: String = columns.iter().map(mark).collect();
    let end = duration(wall as f64);
    let ruler = cell_right(&end, columns.len().saturating_sub(1).max(end.len()));
    let indent = " ".repeat(INDENT);
    page.row(&[plain(indent.clone()), plain(strip)]);
    if !marks.trim().is_empty() {
        page.row(&[plain(indent.clone()), toned(Tone::Bad, marks)]);
    }
    page.row(&[plain(indent), toned(Tone::Dim, format!("0{ruler}"))]);
    legend(page, report.model, &columns, &places, (wall, low_below));
    let meaning = if page.unicode() {
        format!("a full block is {} threads or more", few(scale))
    } else {
        "digits are threads, + is 10 or more".into()
    };
    let width = duration(wall as f64 / columns.len() as f64);
    let text = format!("a column is {width}; {meaning}; highest {}", few(top));
    remark(page, text);
}

fn legend(
    page: &mut Page,
    model: &Model,
    columns: &[Column],
    places: &[Place],
    (wall, low_below): (u64, f64),
) {
    let below = few(low_below);
    let mut line = |mark: char, text: String| {
        let mark = toned(Tone::Bad, mark.to_string());
        page.hang(INDENT, mark, 3, vec![plain(text)]);
    };
    for (i, place) in places.iter().take(PLACES).enumerate() {
        let who = place.group.map_or_else(String::new, |id| {
            format!(" in {}", sched_names::group_of(model, id))
        });
        let text = format!(
            "fewer than {below} for {} ({}): {}{who}",
            duration(place.ns as f64),
            percent(place.ns as f64 / wall as f64),
            sched_names::path_of(model, place.site, 2)
        );
        line(letter(i), text);
    }
    let rest: u64 = places.iter().skip(PLACES).map(|p| p.ns).sum();
    if rest > 0 {
        line(
            '*',
            format!(
                "fewer than {below} for {}: other code",
                duration(rest as f64)
            ),
        );
    }
    let idle = columns.iter().filter(|c| c.idle > IDLE);
    let idle: u64 = idle.map(|c| c.width_ns).sum();
    if idle > 0 {
        let text = format!("no thread active for most of {}", duration(idle as f64));
        line('-', text);
    }
    let spinning = columns.iter().filter(|c| c.spinning);
    let spinning: u64 = spinning.map(|c| c.width_ns).sum();
    if spinning > 0 {
        let ns = duration(spinning as f64);
        line(
            '~',
            format!("all active threads waited in loops for most of {ns}"),
        );
    }
    if places.is_empty() && idle + spinning == 0 {
        remark(page, format!("nowhere fewer than {below} for long"));
    }
}

/// The code of pieces with low parallelism, most time first, and of each piece which it is. Pieces in the
/// same functions of the same group are one place, whatever their lines.
fn places(model: &Model, timeline: &[Moment], low_below: f64) -> (Vec<Place>, Vec<Option<usize>>) {
    let mut places: Vec<Place> = Vec::new();
    let mut place_of = Vec::new();
    for moment in timeline {
        if moment.idle > IDLE || is_spinning(moment) || at_work(moment) >= low_below {
            place_of.push(None);
            continue;
        }
        let thread = moment
            .thread
            .and_then(|id| model.threads.get(id.0 as usize));
        let group = thread.map(|t| t.group);
        let functions = sched_names::functions(model, moment.site);
        let known = places
            .iter()
            .position(|p| p.group == group && p.functions == functions);
        let at = known.unwrap_or(places.len());
        if known.is_none() {
            places.push(Place {
                group,
                functions,
                site: moment.site,
                ns: 0,
            });
        }
        if let Some(place) = places.get_mut(at) {
            place.ns = place.ns.saturating_add(moment.width_ns);
        }
        place_of.push(Some(at));
    }
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(places.get(*at).map(|p| p.ns)));
    let rank = |at: usize| order.iter().position(|other| *other == at);
    let place_of = place_of.into_iter().map(|at| at.and_then(rank)).collect();
    places.sort_by_key(|p| std::cmp::Reverse(p.ns));
    (places, place_of)
}

/// Puts pieces together until there are at most `most` columns.
fn columns(timeline: &[Moment], place_of: &[Option<usize>], most: usize) -> Vec<Column> {
    let per = timeline.len().div_ceil(most.max(1)).max(1);
    let parts = timeline.chunks(per).zip(place_of.chunks(per));
    parts
        .map(|(part, place_of)| column(part, place_of))
        .collect()
}

fn column(part: &[Moment], place_of: &[Option<usize>]) -> Column {
    let width_ns: u64 = part.iter().map(|m| m.width_ns).sum();
    let mean = |value: fn(&Moment) -> f64| {
        let sum: f64 = part.iter().map(|m| value(m) * m.width_ns as f64).sum();
        sum / width_ns.max(1) as f64
    };
    let low: Vec<usize> = place_of.iter().filter_map(|at| *at).collect();
    Column {
        width_ns,
        working: mean(|m| m.working),
        idle: mean(|m| m.idle),
        spinning: 2 * part.iter().filter(|m| is_spinning(m)).count() > part.len(),
        // All pieces but the last are of equal length; the least number is the place with most time.
        low: low
            .iter()
            .copied()
            .min()
            .filter(|_| 2 * low.len() > part.len()),
    }
}

/// Mean number of working threads while any thread was active: a piece is not low because of a pause in it.
fn at_work(moment: &Moment) -> f64 {
    moment.working / (1.0 - moment.idle).max(f64::EPSILON)
}

/// Threads were active, and hardly any worked: they waited in loops.
fn is_spinning(moment: &Moment) -> bool {
    moment.active > 0.0 && moment.working < SPINNING * moment.active
}

fn letter(i: usize) -> char {
    char::from(b'a' + (i % 26) as u8)
}

fn mark(column: &Column) -> char {
    match column.low {
        _ if column.idle > IDLE => '-',
        _ if column.spinning => '~',
        Some(i) if i < PLACES => letter(i),
        Some(_) => '*',
        None => ' ',
    }
}

/// One of eight heights.
fn block(share: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let at = (share.clamp(0.0, 1.0) * 8.0).ceil() as usize;
    match at.checked_sub(1) {
        Some(i) => BLOCKS.get(i).copied().unwrap_or('█'),
        None => ' ',
    }
}

fn digit(threads: f64) -> char {
    let n = threads.round();
    if n < 1.0 {
        '.'
    } else if n > 9.0 {
        '+'
    } else {
        char::from(b'0' + n as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_model::{Site, SiteFrame};

    fn moment(working: f64, idle: f64, site: u32) -> Moment {
        Moment {
            width_ns: 10,
            active: 4.0 * (1.0 - idle),
            working,
            idle,
            site: Some(SiteId(site)),
            ..Moment::default()
        }
    }

    #[test]
    fn pieces_are_put_together_evenly_and_no_time_is_lost() {
        let timeline: Vec<_> = (0..130).map(|_| moment(2.0, 0.0, 0)).collect();
        let columns = columns(&timeline, &[None; 130], 60);
        assert_eq!(columns.len(), 44);
        assert_eq!(columns.iter().map(|c| c.width_ns).sum::<u64>(), 1300);
        assert!(columns
            .iter()
            .all(|c| c.low.is_none() && (c.working - 2.0).abs() < 1e-9));
    }

    #[test]
    fn low_pieces_are_marked_with_their_code_most_time_first() {
        let site = |function: &str| Site {
            frames: vec![SiteFrame {
                function: function.into(),
                ..SiteFrame::default()
            }],
            ..Site::default()
        };
        // The last two are the same function at another line.
        let model = Model {
            sites: vec![site("f"), site("g"), site("g")],
            ..Model::default()
        };
        let timeline = [
            moment(1.0, 0.0, 0),
            moment(4.0, 0.0, 0),
            moment(1.0, 0.0, 1),
            moment(1.0, 0.0, 2),
            moment(0.1, 0.9, 2),
            moment(0.0, 0.0, 2),
        ];
        let (places, place_of) = places(&model, &timeline, 2.0);
        assert_eq!(places.iter().map(|p| p.ns).collect::<Vec<_>>(), [20, 10]);
        let marks = |most| -> String {
            columns(&timeline, &place_of, most)
                .iter()
                .map(mark)
                .collect()
        };
        assert_eq!(marks(60), "b aa-~");
        assert_eq!(marks(3), " a ", "half a column is not most of it");
    }

    #[test]
    fn heights_and_digits() {
        let blocks: String = [0.0, 0.01, 0.5, 1.0, 7.0].into_iter().map(block).collect();
        assert_eq!(blocks, " ▁▄██");
        let digits: String = [0.0, 0.49, 0.5, 3.2, 9.4, 12.0]
            .into_iter()
            .map(digit)
            .collect();
        assert_eq!(digits, "..139+");
    }
}
