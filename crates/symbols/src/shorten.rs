//! Names short enough for a line of a report.
/// x
pub fn shorten(function: &str, _max: usize) -> String {
    function.to_owned()
}
